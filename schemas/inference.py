"""The Open Inference Protocol, version 2, over HTTP: a map as a model, its versions as versions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from schemas.base import Document

#: The datatypes that hold numbers; the protocol's BOOL and BYTES do not, and BF16 has no counterpart in numpy.
Datatype = Literal[
    "FP64", "FP32", "FP16", "INT64", "INT32", "INT16", "INT8", "UINT64", "UINT32", "UINT16", "UINT8"
]  # fmt: skip
#: Parameters of extensions by which a tensor would lie elsewhere, or be another: to pass them over were to guess.
_NOT_OFFERED = ("classification", "shared_memory_region", "shared_memory_byte_size", "shared_memory_offset")


def _is_scalar(value: Any) -> Any:
    if not isinstance(value, str | int | float):
        raise PydanticCustomError("parameter", "must be a string, a number or a boolean")
    return value


Scalar = Annotated[Any, AfterValidator(_is_scalar), WithJsonSchema({"type": ["string", "number", "boolean"]})]


class Parameters(Document):
    """Parameters by name; those that are not known change nothing."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Scalar] = Field(init=False)

    @model_validator(mode="after")
    def _offered(self) -> Parameters:
        for name in _NOT_OFFERED:
            if name in (self.__pydantic_extra__ or {}):
                raise PydanticCustomError("parameter", "{name} is of an extension that is not offered", {"name": name})
        return self


class RequestParameters(Parameters):
    """Parameters of a whole request."""

    binary_data_output: bool = Field(False, description="whether outputs come as binary data unless they say otherwise")


class InputParameters(Parameters):
    """Parameters of an input."""

    binary_data_size: int | None = Field(None, ge=0, lt=2**63, description="bytes after the JSON object")


class OutputParameters(Parameters):
    """Parameters of a requested output."""

    binary_data: bool | None = Field(None, description="whether this output comes as binary data")


class InferenceInput(Document):
    """The input ``predictions``, its elements in ``data`` or after the JSON object."""

    name: str = Field(examples=["predictions"])
    shape: list[Annotated[int, Field(ge=0, lt=2**64)]] = Field(max_length=8, examples=[[3]])
    datatype: Datatype = Field(examples=["FP64"])
    parameters: InputParameters | None = None
    data: list[Any] | None = Field(None, description="row by row, flat or nested", examples=[[0.25, 0.5, 0.75]])


class RequestedOutput(Document):
    """An output by name."""

    name: str = Field(examples=["predictions"])
    parameters: OutputParameters | None = None


class InferenceRequest(Document):
    """The JSON object of an inference request."""

    id: str | None = Field(None, description="comes back in the answer", examples=["42"])
    model_name: str | None = Field(None, description="sent by some clients; the path alone names the model")
    model_version: str | None = Field(None, description="sent by some clients; the path alone names the version")
    parameters: RequestParameters | None = None
    inputs: list[InferenceInput] = Field(min_length=1, max_length=16)
    outputs: list[RequestedOutput] | None = Field(None, max_length=16, description="default: all of the model's")


class InferenceOutput(Document):
    """One output, its elements in ``data`` or after the JSON object."""

    name: str = Field(examples=["predictions"])
    shape: list[int] = Field(examples=[[3]])
    datatype: Literal["FP64"] = "FP64"
    parameters: dict[str, int] | None = Field(None, description="binary_data_size, of binary data")
    data: list[float] | None = Field(None, description="row by row, flat", examples=[[0.25, 0.5, 0.75]])


class InferenceResponse(Document):
    """The JSON object of an inference response."""

    model_name: str = Field(examples=["churn"])
    model_version: str | None = Field(None, examples=["1"])
    id: str | None = Field(None, examples=["42"])
    parameters: dict[str, str] = Field(description="map: the id of the map that was applied")
    outputs: list[InferenceOutput]


class InferenceError(Document):
    """What went wrong; never the data itself."""

    error: str = Field(examples=["there is no such map"])


class ServerMetadata(Document):
    """The server and the extensions of the protocol that it offers."""

    name: str = Field(examples=["calibrant"])
    version: str
    extensions: list[str] = Field(examples=[["binary_tensor_data"]])


class ServerLive(Document):
    """The process answers."""

    live: bool


class ServerReady(Document):
    """The store answers too. The protocol's text calls the field ``live``, its implementations ``ready``."""

    live: bool
    ready: bool


class ModelReady(Document):
    """The model is ready."""

    name: str = Field(examples=["churn"])
    ready: bool


class TensorMetadata(Document):
    """A tensor that a model takes or gives; -1 in ``shape`` is any length."""

    name: str = Field(examples=["predictions"])
    datatype: Literal["FP64"] = "FP64"
    shape: list[int] = Field(examples=[[-1]])


class ModelMetadata(Document):
    """A map as a model. ``parameters`` say which map it is, and on what scale and of what event it was fitted."""

    name: str = Field(examples=["churn"])
    versions: list[str] | None = Field(None, description="absent of a map without a name", examples=[["1", "2"]])
    platform: str = Field(examples=["calibrant_map"])
    inputs: list[TensorMetadata]
    outputs: list[TensorMetadata]
    parameters: dict[str, str]
