"""What a fit shows, as numbers: computed once here, drawn by the plots and told by the report."""

from manymotives.findings.choices import PredictiveCheck, predictive_check
from manymotives.findings.contrasts import contrasts
from manymotives.findings.effects import effect_target, effects
from manymotives.findings.feature_weights import FeatureWeights, feature_weights
from manymotives.findings.identification import Identification, contraction, identification
from manymotives.findings.learning import Learning, learning
from manymotives.findings.mixture import SharedMotives, shared_motives
from manymotives.findings.sample import Sample, sample_of
from manymotives.findings.similarity import Clusters, Similarity, clusters_of, similarity

__all__ = [
    "Clusters",
    "FeatureWeights",
    "Identification",
    "Learning",
    "PredictiveCheck",
    "Sample",
    "SharedMotives",
    "Similarity",
    "clusters_of",
    "contraction",
    "contrasts",
    "effect_target",
    "effects",
    "feature_weights",
    "identification",
    "learning",
    "predictive_check",
    "sample_of",
    "shared_motives",
    "similarity",
]
