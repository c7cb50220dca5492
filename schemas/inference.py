"""The Open Inference Protocol, version 2, over HTTP: each map is a model, and its versions are the model versions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from schemas.base import Document

#: The numeric datatypes; BOOL and BYTES are not numeric, and BF16 has no counterpart in numpy.
Datatype = Literal[
    "FP64", "FP32", "FP16", "INT64", "INT32", "INT16", "INT8", "UINT64", "UINT32", "UINT16", "UINT8"
]  # fmt: skip
#: Those of features, which may be categories.
FeatureDatatype = Literal[Datatype, "BYTES", "BOOL"]
#: Parameters of unsupported extensions that would change where or what a tensor is, so they cannot be ignored.
_NOT_OFFERED = ("classification", "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset")


def _is_scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise PydanticCustomError("parameter", "must be a string, a number or a boolean")
    return value


Scalar = Annotated[Any, AfterValidator(_is_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})]


class Parameters(Document):
    """Parameters by name; unknown parameters are ignored."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    @model_validator(mode="after")
    def _offered(self) -> Parameters:
        for name in _NOT_OFFERED:
            if name in (self.__pydantic_extra__ or {}):
                raise PydanticCustomError(
                    "parameter", "{name} belongs to an extension that is not supported", {"name": name}
                )
        return self


class RequestParameters(Parameters):
    """Parameters of a whole request."""

    binary_data_output: bool = Field(False, description="whether outputs are binary data by default")
    seed: int | None = Field(
        None, ge=0, lt=2**32, description="for set maps that draw a random number for each row; another in each request"
    )
    alpha: float | None = Field(None, description="another error level of the sets of an adjustable set map")


class InputParameters(Parameters):
    """Parameters of an input."""

    binary_data_size: int | None = Field(None, ge=0, lt=2**63, description="number of bytes after the JSON object")


class OutputParameters(Parameters):
    """Parameters of a requested output."""

    binary_data: bool | None = Field(None, description="whether this output is binary data")


class InferenceInput(Document):
    """The input ``predictions``, in ``data`` or after the JSON object; or a feature or ``groups``, in ``data``."""

    name: str = Field(examples=["predictions"], description="name of the tensor")
    shape: list[Annotated[int, Field(ge=0, lt=2**64)]] = Field(max_length=8, examples=[[3]])
    datatype: FeatureDatatype = Field(
        examples=["FP64"],
        description="of predictions a number; BYTES are strings of a feature or of groups, and BOOL are booleans",
    )
    parameters: InputParameters | None = None
    data: list[Any] | None = Field(None, description="row-major, flat or nested", examples=[[0.25, 0.5, 0.75]])


class RequestedOutput(Document):
    """A requested output, by name."""

    name: str = Field(examples=["predictions"], description="name of the tensor")
    parameters: OutputParameters | None = None


class InferenceRequest(Document):
    """The JSON object of an inference request."""

    id: str | None = Field(None, description="returned in the response", examples=["42"])
    model_name: str | None = Field(None, description="accepted but ignored: the path names the model")
    model_version: str | None = Field(None, description="accepted but ignored: the path names the version")
    parameters: RequestParameters | None = None
    inputs: list[InferenceInput] = Field(min_length=1, max_length=201, description="predictions, features, groups")
    outputs: list[RequestedOutput] | None = Field(None, max_length=16, description="default: all outputs of the model")


class InferenceOutput(Document):
    """One output, with its elements in ``data`` or after the JSON object."""

    name: str = Field(examples=["predictions"], description="name of the tensor")
    shape: list[int] = Field(examples=[[3]])
    datatype: Literal["FP64", "BOOL"] = Field("FP64", description="BOOL for the members of sets, a byte each")
    parameters: dict[str, int] | None = Field(None, description="binary_data_size, for binary data")
    data: list[float] | list[bool] | None = Field(None, description="row-major, flat", examples=[[0.25, 0.5, 0.75]])


class InferenceResponse(Document):
    """The JSON object of an inference response."""

    model_name: str = Field(examples=["churn"], description="name of the model")
    model_version: str | None = Field(None, examples=["1"], description="version of the model; null without one")
    id: str | None = Field(None, examples=["42"], description="id of the request, if it had one")
    parameters: dict[str, str] = Field(description="map: id of the applied map")
    outputs: list[InferenceOutput]


class InferenceError(Document):
    """An error message; it never contains the data of the request."""

    error: str = Field(examples=["there is no such map"])


class ServerMetadata(Document):
    """The server and its supported protocol extensions."""

    name: str = Field(examples=["calibrant"], description="name of the server")
    version: str = Field(description="version of the server")
    extensions: list[str] = Field(examples=[["binary_tensor_data"]], description="supported extensions of the protocol")


class ServerLive(Document):
    """Whether the process responds."""

    live: bool


class ServerReady(Document):
    """Whether the store responds; the specification names the field ``live``, implementations ``ready``."""

    live: bool
    ready: bool


class ModelReady(Document):
    """Whether the model is ready."""

    name: str = Field(examples=["churn"], description="name of the model")
    ready: bool


class TensorMetadata(Document):
    """An input or output tensor of a model; -1 in ``shape`` means any length."""

    name: str = Field(examples=["predictions"], description="name of the tensor")
    datatype: Literal["FP64", "BYTES", "BOOL"] = Field(
        "FP64", description="BYTES are the strings of a feature or of groups, BOOL whether a set has each class"
    )
    shape: list[int] = Field(examples=[[-1]])


class ModelMetadata(Document):
    """A map as a model; ``parameters`` give the map's id, scale, event and alpha, and its class names as JSON."""

    name: str = Field(examples=["churn"], description="name of the model")
    versions: list[str] | None = Field(None, description="absent for a map without a name", examples=[["1", "2"]])
    platform: str = Field(examples=["calibrant_map"], description="software and method that the model is from")
    inputs: list[TensorMetadata] = Field(description="input tensors")
    outputs: list[TensorMetadata]
    parameters: dict[str, str] = Field(description="properties of the map by name")
