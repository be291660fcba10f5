"""What a scenario is: two measurements side by side, and the bound that their ratio, or ours
alone, has to keep."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median


@dataclass(frozen=True, slots=True)
class Settings:
    """How long and how much is measured."""

    quick: bool = False
    seconds: float = 6.0
    warm_up: float = 1.5


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement. `generator_share`: part of a core that the load generator took."""

    value: float
    generator_share: float = 0.0


Measure = Callable[[Settings], Awaitable[Figure]]


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on ours / peer, or on ours itself."""

    bound: float
    is_least: bool
    of_ratio: bool = True

    def holds(self, ours: float, ratio: float | None) -> bool:
        """Whether the bound is kept."""
        value = ratio if self.of_ratio else ours
        if value is None:
            return False
        return value >= self.bound if self.is_least else value <= self.bound

    def text(self, unit: str) -> str:
        """For the table."""
        sign = "≥" if self.is_least else "≤"
        return f"{sign} {self.bound:g} {'x' if self.of_ratio else unit}"


def at_least(bound: float) -> Target:
    """Ours / peer must reach it."""
    return Target(bound, is_least=True)


def at_most(bound: float) -> Target:
    """Ours / peer must not pass it."""
    return Target(bound, is_least=False)


def no_more_than(bound: float) -> Target:
    """Ours must not pass it, whatever the peer's is."""
    return Target(bound, is_least=False, of_ratio=False)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One line of the table. `against` says what the peer's column is."""

    name: str
    title: str
    unit: str
    target: Target
    ours: Measure
    against: str = ""
    peer: Measure | None = None


@dataclass(slots=True)
class Result:
    """The runs of one scenario; figures are medians."""

    scenario: Scenario
    runs: list[tuple[Figure, Figure | None]] = field(default_factory=list)

    @property
    def ours(self) -> float:
        """Median of ours."""
        return median(ours.value for ours, _ in self.runs)

    @property
    def peer(self) -> float | None:
        """Median of the peer's."""
        values = [peer.value for _, peer in self.runs if peer]
        return median(values) if values else None

    @property
    def ratio(self) -> float | None:
        """Ours / peer, of the medians."""
        return self.ours / self.peer if self.peer else None

    @property
    def ok(self) -> bool:
        """Whether the target is met."""
        return self.scenario.target.holds(self.ours, self.ratio)

    def to_json(self) -> dict[str, object]:
        """One entry of results.json."""
        unit = self.scenario.unit
        return {
            "scenario": self.scenario.name,
            "title": self.scenario.title,
            "ours": _short(self.ours),
            "peer": _short(self.peer),
            "against": self.scenario.against,
            "ratio": _short(self.ratio),
            "unit": unit,
            "target": self.scenario.target.text(unit),
            "ok": self.ok,
            "runs": [
                {
                    "ours": _short(ours.value),
                    "peer": _short(peer.value) if peer else None,
                    "generator": round(ours.generator_share, 2),
                }
                for ours, peer in self.runs
            ],
        }


def _short(value: float | None) -> float | None:
    """Four significant digits: more would claim what nobody measured."""
    return None if value is None else float(f"{value:.4g}")
