"""Models that another engine serves: only their tokenizers are read here."""

from collapsewatch_worker.models.tokenizer_files import tokenizer_below
from collapsewatch_worker.remote.engines import remote_model
from collapsewatch_worker.remote.patience import Patience
from collapsewatch_worker.scorers import ScoringModel
from collapsewatch_worker.settings import ScoringSettings


class ServedModels:
    """What a checkpoint's name stands for when an engine holds the weights."""

    def __init__(self, settings: ScoringSettings) -> None:
        assert settings.engine != "transformers"
        assert settings.engine_url is not None
        self._kind = settings.engine
        self._url = settings.engine_url
        self._key = settings.engine_key.get_secret_value() if settings.engine_key else None
        self._roots = settings.checkpoint_roots
        self._patience = Patience(settings.engine_patience_seconds)

    def load(
        self, checkpoint: str, *, needs_tokenizer: bool = False, pattern: str | None = None
    ) -> ScoringModel:
        """The served model; scoring waits while the engine says that it serves another checkpoint.

        The folder is looked at only when the batch may need a tokenizer, and need not be here: a batch
        that cannot do without one fails when it is cut.
        """
        tokenizer = tokenizer_below(self._roots, checkpoint) if needs_tokenizer else None
        return remote_model(
            self._kind,
            self._url,
            api_key=self._key,
            tokenizer=tokenizer,
            checkpoint=checkpoint,
            patience=self._patience,
        )
