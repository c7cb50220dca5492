"""One tenant's view of the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from redis import Redis

from backend.store.batches import BatchStore, UploadStore
from backend.store.budget import NO_QUOTAS, Charges, Quotas
from backend.store.clock import stamp
from backend.store.idempotency import IdempotencyStore
from backend.store.jobs.backlog import Places
from backend.store.jobs.runs import RunStore
from backend.store.jobs.store import JobStore
from backend.store.keyspace import DEFAULT_TENANT, Keyspace
from backend.store.registry.aliases import AliasStore
from backend.store.registry.listing import Listing
from backend.store.registry.maps import MapStore
from calibrant.calibrators.fitting import with_training
from calibrant.core.batch import Batch
from calibrant.diagrams.in_sample import FitSummary, in_sample
from calibrant.maps.calibration_map import CalibrationMap
from schemas.distributions import ForecastShape, HeldOutGain
from schemas.maps import (
    Bins,
    FitBins,
    FitDistributionSpec,
    FitSpec,
    ImportOptions,
    InSample,
    MapRecord,
    Registration,
    Scores,
)

if TYPE_CHECKING:
    from backend.store.monitors.definitions import Definitions
    from calibrant.distributions.maps.distribution_map import DistributionMap


@dataclass(frozen=True)
class Store:
    """Batches, maps, aliases, jobs, monitors and idempotency keys of one tenant, with a shared connection pool.

    Each part is created on first use, because every request creates a view, and most need at most one part.
    """

    redis: Redis
    keys: Keyspace
    quotas: Quotas

    @classmethod
    def of(cls, redis: Redis, tenant: str = DEFAULT_TENANT, quotas: Quotas = NO_QUOTAS) -> Store:
        """Create the view of ``tenant``."""
        return cls(redis, Keyspace(tenant), quotas)

    @cached_property
    def batches(self) -> BatchStore:
        """The batches."""
        return BatchStore(self.redis, self.keys, self.quotas)

    @cached_property
    def uploads(self) -> UploadStore:
        """Records of uploaded files."""
        return UploadStore(self.redis, self.keys)

    @cached_property
    def maps(self) -> MapStore:
        """The maps."""
        return MapStore(self.redis, self.keys)

    @cached_property
    def aliases(self) -> AliasStore:
        """The aliases of maps."""
        return AliasStore(self.redis, self.keys)

    @cached_property
    def listing(self) -> Listing:
        """The list of maps."""
        return Listing(self.redis, self.keys)

    @cached_property
    def jobs(self) -> JobStore:
        """The jobs."""
        return JobStore(self.redis, self.keys)

    @cached_property
    def runs(self) -> RunStore:
        """The runs of jobs."""
        return RunStore(self.redis, self.keys)

    @cached_property
    def places(self) -> Places:
        """The places for unfinished jobs."""
        return Places(self.redis, self.keys, self.quotas)

    @cached_property
    def monitors(self) -> Definitions:
        """The definitions of monitors, whose models are imported on first use."""
        from backend.store.monitors.definitions import Definitions

        return Definitions(self.redis, self.keys, self.quotas)

    @cached_property
    def idempotency(self) -> IdempotencyStore:
        """The idempotency keys."""
        return IdempotencyStore(self.redis, self.keys)

    @cached_property
    def charges(self) -> Charges:
        """The usage of quotas."""
        return Charges(self.redis, self.keys, self.quotas)


def map_record(map_id: str, spec: FitSpec, fitted: CalibrationMap, batch: Batch) -> MapRecord:
    """The record of a map fitted to ``batch`` according to ``spec``; storing it assigns its version."""
    seen = in_sample(batch, fitted)
    names = None if spec.class_names is None else tuple(spec.class_names)
    trained = with_training(fitted, batch, spec.options, spec.seed, names)
    gain = trained.diagnostics.get("held_out_gain")
    return MapRecord(
        id=map_id,
        name=spec.name,
        version=None,
        method=fitted.method,
        options=spec.options,
        reduction=fitted.reduction,
        scale=fitted.scale,
        n_classes=fitted.n_classes,
        class_names=spec.class_names,
        n=seen.n,
        seed=spec.seed,
        created_at=stamp(),
        created_by=spec.created_by,
        **spec.about(),
        digest=seen.digest,
        label_rate=seen.label_rate,
        in_sample=InSample(before=_scores(seen.before), after=_scores(seen.after)),
        label_counts=None if seen.label_counts is None else list(seen.label_counts),
        bins=FitBins(of=seen.binned, before=_bins(seen.before), after=_bins(seen.after)),
        held_out_gain=None if gain is None else _gain(gain),
        warning=trained.warning,
        document=trained.to_document(),
    )


def _gain(found: Mapping[str, Any]) -> HeldOutGain:
    """The cross-fitted gain in the diagnostics of a map of a classifier."""
    return HeldOutGain(
        score="log-loss",
        gain=found["log_loss"],
        standard_error=found["standard_error"],
        folds=found.get("folds"),
        rows=found.get("rows"),
    )


def distribution_record(
    map_id: str,
    spec: FitDistributionSpec | ImportOptions,
    fitted: DistributionMap,
    shapes: tuple[ForecastShape, ForecastShape],
    n: int | None,
    *,
    who: str | None = None,
) -> MapRecord:
    """The record of a map of predictive distributions, fitted to ``n`` rows, or imported by ``who``.

    ``shapes`` are those of the forecasts that it accepts and returns.
    """
    fit = spec if isinstance(spec, FitDistributionSpec) else None
    gain = fitted.diagnostics.get("held_out_gain")
    return MapRecord(
        id=map_id,
        prediction_kind="regression",
        name=spec.name,
        version=None,
        method=fitted.method,
        options={} if fit is None else fit.options,
        reduction=None,
        scale=None,
        n_classes=None,
        n=n,
        seed=None if fit is None else fit.seed,
        created_at=stamp(),
        created_by=who if fit is None else fit.created_by,
        **spec.about(),
        imported=fit is None,
        digest=fitted.training_digest,
        accepts=shapes[0],
        returns=shapes[1],
        held_out_gain=None if fit is None or gain is None else HeldOutGain.model_validate(gain),
        warning=None if fit is None else fitted.warning,
        document=fitted.to_document(),
    )


def record_without_fit(
    map_id: str,
    fitted: CalibrationMap,
    registration: Registration,
    *,
    who: str | None = None,
    imported: bool = False,
) -> MapRecord:
    """The record of a map that was imported or derived from another, without a summary of a fit to rows."""
    return MapRecord(
        id=map_id,
        name=registration.name,
        version=None,
        method=fitted.method,
        options={},
        reduction=fitted.reduction,
        scale=fitted.scale,
        n_classes=fitted.n_classes,
        class_names=None if fitted.class_names is None else list(fitted.class_names),
        n=None,
        seed=None,
        created_at=stamp(),
        created_by=who,
        **registration.about(),
        digest=fitted.training_digest,
        imported=imported,
        document=fitted.to_document(),
    )


def _scores(fit: FitSummary) -> Scores:
    return Scores(log_loss=fit.log_loss, brier=fit.brier, ece=fit.ece)


def _bins(fit: FitSummary) -> Bins:
    bins = fit.bins
    return Bins(
        start=bins.start.tolist(),
        count=list(fit.counts),
        rows=bins.rows.tolist(),
        share=(bins.mass / bins.mass.sum()).tolist(),
        mean_prediction=bins.mean_p.tolist(),
        observed_frequency=bins.mean_y.tolist(),
    )
