package failpoint

// Name is the name of a fault.
type Name string

// Variable is the environment variable that switches faults on in a process, as a list with commas, in builds with
// the tag failpoints.
const Variable = "PODSTREAM_FAILPOINTS"

// The faults, one for each guarantee (G1 to G11 in podconfig.proto).
const (
	// ReorderRevisions delivers a revision before its predecessor. Breaks G1, Ordered.
	ReorderRevisions Name = "reorder-revisions"
	// SkipRevision leaves a revision out of a stream. Breaks G2, Reliable.
	SkipRevision Name = "skip-revision"
	// ResendCovered delivers again the changes before the consumer's cursor. Breaks G3, Unique.
	ResendCovered Name = "resend-covered"
	// EarlyCursor puts the cursor on a message that isn't the last of its revision. Breaks G4, Atomic.
	EarlyCursor Name = "early-cursor"
	// EmitUnchanged publishes an op without a change. Breaks G5, Minimal.
	EmitUnchanged Name = "emit-unchanged"
	// SkipCommit publishes a revision without storing it. Breaks G6, Durable.
	SkipCommit Name = "skip-commit"
	// ForgetTombstones leaves the removed pods out of catch-ups. Breaks G7, Resumable.
	ForgetTombstones Name = "forget-tombstones"
	// SendUnderLock sends to consumers while the merge waits. Breaks G8, Isolated.
	SendUnderLock Name = "send-under-lock"
	// EarlyReady reports a source as ready before all of its pods are known. Breaks G9, Ready.
	EarlyReady Name = "early-ready"
	// DropLeave leaves out the REMOVE of a pod that stops matching a filter. Breaks G10, Filtered.
	DropLeave Name = "drop-leave"
	// IgnorePosition serves a consumer that is ahead as any other one. Breaks G11, Forward.
	IgnorePosition Name = "ignore-position"
)

// The faults of a relay. They break no guarantee of its podconfigd, but its pods differ from its upstream's.
const (
	// RelayDropRemove ignores that the upstream has removed a pod.
	RelayDropRemove Name = "relay-drop-remove"
	// RelayForgetHeld drops the relayed pods when their stream ends, so that a pod that the upstream doesn't have yet
	// on the next stream is removed.
	RelayForgetHeld Name = "relay-forget-held"
)

// The faults of podexecd. Each breaks one promise that package survival checks.
const (
	// DoubleStart starts a pod's first container twice. Breaks Once.
	DoubleStart Name = "double-start"
	// RestartAdopted restarts the healthy containers that podexecd adopts when it starts. Breaks Unharmed.
	RestartAdopted Name = "restart-adopted"
	// LeakSandbox leaves the sandboxes of removed pods. Breaks Clean.
	LeakSandbox Name = "leak-sandbox"
	// LeaveDirectory leaves the directories of removed pods. Breaks Clean.
	LeaveDirectory Name = "leave-directory"
	// LeaveCgroup leaves the cgroups of removed pods. Breaks Clean.
	LeaveCgroup Name = "leave-cgroup"
	// ShortGrace ends a grace period when podexecd restarts. Breaks Grace.
	ShortGrace Name = "short-grace"
	// UntoldGrace counts a container's grace period from the end of its pod, although the container hasn't got the
	// signal yet. Breaks Grace.
	UntoldGrace Name = "untold-grace"
	// ForgetReadiness loses the pods' readiness when podexecd restarts. Breaks Steady.
	ForgetReadiness Name = "forget-readiness"
)

// The faults of podexecd as a node of a cluster. Each breaks one promise that package usage of test/cluster checks.
const (
	// UntoldEnd doesn't report to the API server that a pod has ended.
	UntoldEnd Name = "untold-end"
	// UncompletedDeletion doesn't complete the deletion of pods at the API server after they are cleaned up.
	UncompletedDeletion Name = "uncompleted-deletion"
	// LeaveMirror leaves the mirror pods of removed static pods.
	LeaveMirror Name = "leave-mirror"
)

// The fault of podexecd's volumes. TestVolumeDeaths of test/cluster finds it.
const (
	// CrossMounts removes the directories of a pod's volumes also on other mounts.
	CrossMounts Name = "cross-mounts"
)

// The faults of which systemd's watchdog restarts a daemon.
const (
	// BlockSyncLoop blocks podexecd's sync loop at its next housekeeping.
	BlockSyncLoop Name = "block-sync-loop"
	// HoldHubLock holds the lock of podconfigd's Hub, from the next check of its store.
	HoldHubLock Name = "hold-hub-lock"
	// HoldPublishing holds the Hub's other lock likewise, while nothing waits for the disk.
	HoldPublishing Name = "hold-publishing"
)

// The faults of podctl web. Each leaves out one check, so that the attacks succeed which it stops.
const (
	// WebHost serves requests for any host.
	WebHost Name = "web-host"
	// WebMethod serves requests of any method.
	WebMethod Name = "web-method"
	// WebSite serves requests of pages of any site.
	WebSite Name = "web-site"
	// WebDest serves frames.
	WebDest Name = "web-dest"
	// WebOrigin serves requests of any origin, also for a WebSocket.
	WebOrigin Name = "web-origin"
	// WebToken serves callers without a token.
	WebToken Name = "web-token"
	// WebFrameHeaders lets browsers show the page in frames.
	WebFrameHeaders Name = "web-frame-headers"
	// WebTicketOnce accepts a ticket again.
	WebTicketOnce Name = "web-ticket-once"
	// WebTicketTime accepts a ticket for ever.
	WebTicketTime Name = "web-ticket-time"
	// WebFileMode writes the ticket to a file that all users may read.
	WebFileMode Name = "web-file-mode"
	// WebOpenAddress gives the browser's command the address instead of the file's path.
	WebOpenAddress Name = "web-open-address"
	// WebAnyAddress listens on all addresses of the machine.
	WebAnyAddress Name = "web-any-address"
	// WebBody reads bodies of any size.
	WebBody Name = "web-body"
	// WebHeaderTime waits for a request's header for ever.
	WebHeaderTime Name = "web-header-time"
	// WebHeaderSize reads headers of any size.
	WebHeaderSize Name = "web-header-size"
	// WebConnections accepts any number of connections.
	WebConnections Name = "web-connections"
	// WebReadOnly acts without --allow-exec and --allow-apply.
	WebReadOnly Name = "web-read-only"
	// WebConfirmation acts without the user's confirmation.
	WebConfirmation Name = "web-confirmation"
	// WebSource deletes pods of any source.
	WebSource Name = "web-source"
)

// WebNames are the faults of podctl web.
func WebNames() []Name {
	return []Name{
		WebHost, WebMethod, WebSite, WebDest, WebOrigin, WebToken, WebFrameHeaders, WebTicketOnce, WebTicketTime, WebFileMode,
		WebOpenAddress, WebAnyAddress, WebBody, WebHeaderTime, WebHeaderSize, WebConnections, WebReadOnly, WebConfirmation,
		WebSource,
	}
}

// The fault of the source "applied".
const (
	// SkipAppliedStore publishes a write without storing it. Breaks that a write survives kill -9.
	SkipAppliedStore Name = "skip-applied-store"
)

// Names are the faults that break a guarantee, in the order of the guarantees.
func Names() []Name {
	return []Name{
		ReorderRevisions, SkipRevision, ResendCovered, EarlyCursor, EmitUnchanged,
		SkipCommit, ForgetTombstones, SendUnderLock, EarlyReady, DropLeave, IgnorePosition,
	}
}

// RelayNames are the faults of a relay.
func RelayNames() []Name { return []Name{RelayDropRemove, RelayForgetHeld} }

// ExecNames are the faults of podexecd.
func ExecNames() []Name {
	return []Name{DoubleStart, RestartAdopted, LeakSandbox, LeaveDirectory, LeaveCgroup, ShortGrace, UntoldGrace, ForgetReadiness}
}

// ClusterNames are the faults of podexecd as a node of a cluster.
func ClusterNames() []Name { return []Name{UntoldEnd, UncompletedDeletion, LeaveMirror} }

// VolumeNames are the faults of podexecd's volumes.
func VolumeNames() []Name { return []Name{CrossMounts} }

// WatchdogNames are the faults of which systemd's watchdog restarts a daemon.
func WatchdogNames() []Name { return []Name{BlockSyncLoop, HoldHubLock, HoldPublishing} }

// WriteNames are the faults of the source "applied".
func WriteNames() []Name { return []Name{SkipAppliedStore} }
