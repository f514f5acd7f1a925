"""Everything the server is made of, one of each in a process, built from its settings."""

from dataclasses import dataclass

from collapsewatch.blobs import BlobStore, open_blob_store
from collapsewatch_server.access.visible import narrow
from collapsewatch_server.accounts.arrivals import Arrivals
from collapsewatch_server.accounts.audit import Audit
from collapsewatch_server.accounts.audit_reading import AuditReading
from collapsewatch_server.accounts.directory import Directory
from collapsewatch_server.accounts.doorkeeper import Doorkeeper
from collapsewatch_server.accounts.invitations import Invitations
from collapsewatch_server.accounts.keys import KeyDesk
from collapsewatch_server.accounts.members import Members
from collapsewatch_server.accounts.people import People
from collapsewatch_server.accounts.sessions import Sessions
from collapsewatch_server.alerting.desk import AlertDesk
from collapsewatch_server.alerting.rules import RuleBook
from collapsewatch_server.alerts.watch import Limits
from collapsewatch_server.auth import Keyring, Purpose
from collapsewatch_server.backup.upgrades import back_up_before_upgrade
from collapsewatch_server.curation.deletions import Deletions
from collapsewatch_server.curation.desk import RunDesk
from collapsewatch_server.db import Database, SeenSession
from collapsewatch_server.events import EventHub, RedisBell
from collapsewatch_server.inbox.standing import Standing
from collapsewatch_server.ingest.batches import BatchIntake
from collapsewatch_server.ingest.runs import RunIntake
from collapsewatch_server.ingest.scalars import ScalarIntake
from collapsewatch_server.keeping.desk import RetentionDesk
from collapsewatch_server.keeping.projects import ProjectRetention
from collapsewatch_server.keeping.texts import TextRetention
from collapsewatch_server.liveness.earshot import Earshot
from collapsewatch_server.liveness.heartbeats import Heartbeats
from collapsewatch_server.liveness.watch import Watch
from collapsewatch_server.meters import Meters
from collapsewatch_server.migrations import upgrade
from collapsewatch_server.notify.desk import ChannelDesk
from collapsewatch_server.notify.guard import OutgoingGuard
from collapsewatch_server.notify.notifier import Notifier
from collapsewatch_server.notify.sending import Sender
from collapsewatch_server.notify.vault import Vault
from collapsewatch_server.queue.admission import Admission
from collapsewatch_server.queue.feed import Feed, open_feed
from collapsewatch_server.queue.leases import JobQueue
from collapsewatch_server.reading.alert_traces import AlertTraceReading
from collapsewatch_server.reading.alerts import AlertReading
from collapsewatch_server.reading.answers import Reading
from collapsewatch_server.reading.compare import Comparison
from collapsewatch_server.reading.rollout_finding import RolloutSearch
from collapsewatch_server.reading.rollouts import RolloutReading
from collapsewatch_server.reading.run_list import RunListReading
from collapsewatch_server.reading.service import ServiceReading
from collapsewatch_server.reading.steps import StepReading
from collapsewatch_server.reading.templates import TemplateReading
from collapsewatch_server.repeating import Repeated
from collapsewatch_server.reporting.drawing import Drawing
from collapsewatch_server.reporting.series import SeriesExport
from collapsewatch_server.results.writer import Results
from collapsewatch_server.retention import SECONDS_BETWEEN_LOOKS, Retention, audit_retention
from collapsewatch_server.settings import ServerSettings
from collapsewatch_server.sharing.desk import SECONDS_BETWEEN_LOOKS as SHARE_SECONDS
from collapsewatch_server.sharing.desk import ShareDesk
from collapsewatch_server.throttling.service import Throttle, build_throttle
from collapsewatch_server.web.gate import IntakeGate, beat_gate, entry_gate, work_gate
from collapsewatch_server.web.provider import Provider

_BUSY_SECONDS = 15.0
_WARM_SECONDS = 60.0
narrow(SeenSession)


@dataclass(frozen=True)
class Services:
    """Everything a request may need; one of each in a process."""

    settings: ServerSettings
    gate: IntakeGate
    """For what brings data."""
    beats: IntakeGate
    """For signs of life."""
    work: IntakeGate
    """For what workers ask and bring."""
    entries: IntakeGate
    """For what people say before they are signed in."""
    throttle: Throttle
    database: Database
    blobs: BlobStore
    feed: Feed
    hub: EventHub
    claims: EventHub
    """Wakes the claims that wait for a job."""
    bell: RedisBell | None
    keyring: Keyring
    doorkeeper: Doorkeeper
    arrivals: Arrivals
    provider: Provider | None
    """Who signs people in besides their passwords."""
    people: People
    directory: Directory
    members: Members
    invitations: Invitations
    keys: KeyDesk
    sessions: Sessions
    audit: Audit
    audit_reading: AuditReading
    retention: RetentionDesk
    runs: RunIntake
    batches: BatchIntake
    scalars: ScalarIntake
    queue: JobQueue
    results: Results
    reading: Reading
    steps: StepReading
    comparison: Comparison
    run_list: RunListReading
    run_desk: RunDesk
    heartbeats: Heartbeats
    standing: Standing
    watch: Watch
    service: ServiceReading
    alerts: AlertReading
    alert_traces: AlertTraceReading
    rollouts: RolloutReading
    rollout_search: RolloutSearch
    templates: TemplateReading
    desk: AlertDesk
    rules: RuleBook
    channels: ChannelDesk
    notifier: Notifier
    shares: ShareDesk
    exports: SeriesExport
    drawing: Drawing
    meters: Meters
    repeated: tuple[Repeated, ...]
    """What runs beside the requests."""

    def prepare(self) -> None:
        """Brings the database up to date, its rows kept first, and lets the operator's own worker key in."""
        if self.settings.upgrade_backup:
            back_up_before_upgrade(self.database, self.settings.home)
        upgrade(self.database.engine)
        if self.settings.worker_key is not None:
            key = self.settings.worker_key.get_secret_value()
            self.keyring.admit(key, Purpose.worker, label="from the environment")

    def open_hubs(self) -> None:
        """Binds what waits in this process to the running event loop."""
        self.hub.open()
        self.claims.open()

    def close_hubs(self) -> None:
        """Ends open streams, waiting claims and reading ahead; may be called from a signal handler."""
        self.hub.close()
        self.claims.close()
        self.reading.close()

    def close(self) -> None:
        """Gives all connections back."""
        self.notifier.close()
        self.shares.snapshots.close()
        if self.bell is not None:
            self.bell.close()
        self.throttle.close()
        self.feed.close()
        self.database.close()


@dataclass(frozen=True)
class FrozenServices:
    """What reads a snapshot instead of the runs as they are now; nothing here can change anything."""

    settings: ServerSettings
    database: Database
    blobs: BlobStore
    reading: Reading
    comparison: Comparison
    steps: StepReading
    exports: SeriesExport
    drawing: Drawing


def build_services(settings: ServerSettings) -> Services:
    """The services for these settings; nothing is opened yet."""
    database = Database(settings.effective_database_url)
    blobs = open_blob_store(settings.effective_blob_url)
    redis_url = settings.effective_redis_url
    hub, claims = EventHub(), EventHub()
    feed = open_feed(redis_url, claims.ring)
    bell = RedisBell(redis_url, hub) if redis_url else None
    ring = bell.ring if bell else hub.ring
    limits, throttle = _limits(settings), build_throttle(settings)
    # Looks that come a little late are no break: a busy machine is not a deaf one.
    earshot = Earshot(max(3 * settings.watch_seconds, _BUSY_SECONDS))
    admission = Admission(settings.max_waiting_batches, settings.max_deferred_batches)
    queue = JobQueue(
        database,
        feed,
        ring,
        admission,
        Earshot(max(3 * settings.reconcile_seconds, settings.lease_seconds / 2)),
        lease_seconds=settings.lease_seconds,
        max_starts=settings.max_starts,
        shard_wait_seconds=settings.shard_wait_seconds,
    )
    watch = Watch(database, ring, earshot, limits)
    results = Results(database, ring, blobs)
    channels, notifier = _channels(settings, database)
    desk = AlertDesk(database, ring)
    reading = Reading(database)
    keyring = Keyring(database)
    audit = Audit(database)
    run_desk = RunDesk(database, ring)
    keeping = ProjectRetention(database, TextRetention(database, blobs), run_desk, audit)
    people = People(database)
    sessions = Sessions(database, seconds=settings.session_days * 86_400)
    arrivals = Arrivals(database, audit)
    sharing = ShareDesk(
        database,
        blobs,
        lambda frozen: _frozen(settings, frozen, blobs),
        public_url=settings.public_url,
    )
    return Services(
        settings=settings,
        gate=IntakeGate(max_bytes=settings.max_intake_bytes, max_requests=settings.max_intake_requests),
        beats=beat_gate(),
        work=work_gate(settings.max_intake_bytes),
        entries=entry_gate(),
        throttle=throttle,
        database=database,
        blobs=blobs,
        feed=feed,
        hub=hub,
        claims=claims,
        bell=bell,
        keyring=keyring,
        doorkeeper=Doorkeeper(
            database,
            keyring,
            sessions,
            arrivals,
            needs_login=settings.needs_login,
            proxy_operators=settings.proxy_operators,
        ),
        arrivals=arrivals,
        provider=None if settings.oidc_issuer is None else Provider(settings),
        people=people,
        directory=Directory(database, people),
        members=Members(database),
        invitations=Invitations(database, people),
        keys=KeyDesk(database, keyring),
        sessions=sessions,
        audit=audit,
        audit_reading=AuditReading(database),
        retention=RetentionDesk(database),
        runs=RunIntake(database, ring),
        batches=BatchIntake(database, blobs, feed, ring, admission),
        scalars=ScalarIntake(database, ring),
        queue=queue,
        results=results,
        reading=reading,
        steps=StepReading(database),
        comparison=Comparison(database),
        run_list=RunListReading(database),
        run_desk=run_desk,
        heartbeats=Heartbeats(database, earshot, fresh_seconds=min(5.0, settings.stall_seconds / 10)),
        standing=Standing(database),
        watch=watch,
        service=ServiceReading(database, settings.effective_blob_url, limits),
        alerts=AlertReading(database),
        alert_traces=AlertTraceReading(database, blobs),
        rollouts=RolloutReading(database, blobs),
        rollout_search=RolloutSearch(database, blobs),
        templates=TemplateReading(database, blobs),
        desk=desk,
        rules=RuleBook(database, ring),
        channels=channels,
        notifier=notifier,
        shares=sharing,
        exports=SeriesExport(database),
        drawing=Drawing(reading),
        meters=Meters(),
        repeated=(
            Repeated("reconciler", queue.reconcile, settings.reconcile_seconds),
            Repeated("watch", watch.look, settings.watch_seconds),
            Repeated("snoozes", desk.look, settings.watch_seconds),
            Repeated("late folds", results.late.look, settings.reconcile_seconds),
            Repeated("deletions", Deletions(database, blobs).look, settings.watch_seconds),
            Repeated("retention", Retention(database).look, SECONDS_BETWEEN_LOOKS),
            Repeated(
                "audit log", audit_retention(database, days=settings.audit_days).look, SECONDS_BETWEEN_LOOKS
            ),
            Repeated("project retention", keeping.look, SECONDS_BETWEEN_LOOKS),
            Repeated("shares", sharing.look, SHARE_SECONDS),
            Repeated("long series", reading.warm, _WARM_SECONDS),
            Repeated("notifier", notifier.look, settings.notify_seconds),
            *throttle.repeated,
        ),
    )


def _frozen(settings: ServerSettings, frozen: Database, blobs: BlobStore) -> FrozenServices:
    reading = Reading(frozen)
    return FrozenServices(
        settings=settings,
        database=frozen,
        blobs=blobs,
        reading=reading,
        comparison=Comparison(frozen),
        steps=StepReading(frozen),
        exports=SeriesExport(frozen),
        drawing=Drawing(reading),
    )


def _channels(settings: ServerSettings, database: Database) -> tuple[ChannelDesk, Notifier]:
    guard = OutgoingGuard(allow_private=settings.allow_private_channels, hosts=settings.channel_hosts)
    key = settings.secret_key.get_secret_value() if settings.secret_key is not None else None
    vault = Vault(settings.home, key)
    sender = Sender(guard, vault)
    return (
        ChannelDesk(database, guard, vault, sender),
        Notifier(database, sender, public_url=settings.public_url),
    )


def _limits(settings: ServerSettings) -> Limits:
    return Limits(
        stall_seconds=settings.stall_seconds,
        crash_seconds=settings.crash_seconds,
        worker_seconds=settings.worker_seconds,
        lag_seconds=settings.lag_seconds,
        quiet_seconds=settings.quiet_seconds,
    )
