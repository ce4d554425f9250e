package failpoint

// Name names one fault.
type Name string

// Variable is the environment variable that switches faults on in a process, as a list with commas, in builds with the tag failpoints.
const Variable = "PODSTREAM_FAILPOINTS"

// The faults, one for each promise (G1 to G10 in podconfig.proto).
const (
	// ReorderRevisions delivers a revision before the one that precedes it. Breaks G1, Ordered.
	ReorderRevisions Name = "reorder-revisions"
	// SkipRevision leaves a revision out of a stream. Breaks G2, Reliable.
	SkipRevision Name = "skip-revision"
	// ResendCovered delivers again what the consumer's cursor covers. Breaks G3, Unique.
	ResendCovered Name = "resend-covered"
	// EarlyCursor puts the cursor on a message that isn't the last of its revision. Breaks G4, Atomic.
	EarlyCursor Name = "early-cursor"
	// EmitUnchanged publishes an op that changes nothing. Breaks G5, Minimal.
	EmitUnchanged Name = "emit-unchanged"
	// SkipCommit publishes a revision without having stored it. Breaks G6, Durable.
	SkipCommit Name = "skip-commit"
	// ForgetTombstones catches consumers up without telling them what was removed. Breaks G7, Resumable.
	ForgetTombstones Name = "forget-tombstones"
	// SendUnderLock sends to consumers while the merge waits. Breaks G8, Isolated.
	SendUnderLock Name = "send-under-lock"
	// EarlyReady calls a source ready before all of its pods are known. Breaks G9, Ready.
	EarlyReady Name = "early-ready"
	// DropLeave forgets the REMOVE of a pod that ceases to match a filter. Breaks G10, Filtered.
	DropLeave Name = "drop-leave"
)

// The faults of a relay. They break no promise of the podconfigd that has it: what it serves isn't what its upstream has.
const (
	// RelayDropRemove doesn't tell that the upstream has removed a pod.
	RelayDropRemove Name = "relay-drop-remove"
	// RelayForgetHeld forgets the relayed pods with the stream that they came on, so that one which the upstream can't name yet on
	// the next stream is taken for gone.
	RelayForgetHeld Name = "relay-forget-held"
)

// The faults of podexecd. Each breaks one thing that package survival checks.
const (
	// DoubleStart starts a pod's first container twice. Breaks Once.
	DoubleStart Name = "double-start"
	// RestartAdopted restarts the healthy containers that podexecd finds when it starts. Breaks Unharmed.
	RestartAdopted Name = "restart-adopted"
	// LeakSandbox leaves the sandboxes of pods that are gone. Breaks Clean.
	LeakSandbox Name = "leak-sandbox"
	// LeaveDirectory leaves the directories of pods that are gone. Breaks Clean.
	LeaveDirectory Name = "leave-directory"
	// LeaveCgroup leaves the cgroups of pods that are gone. Breaks Clean.
	LeaveCgroup Name = "leave-cgroup"
	// ShortGrace forgets, over a restart of podexecd, what was left of a grace period: it is over. Breaks Grace.
	ShortGrace Name = "short-grace"
	// UntoldGrace counts a container's grace period from when its pod was to end, though nobody has told it so yet. Breaks Grace.
	UntoldGrace Name = "untold-grace"
	// ForgetReadiness forgets, over a restart of podexecd, which pods were ready. Breaks Steady.
	ForgetReadiness Name = "forget-readiness"
)

// The faults of podexecd as a node of a cluster. Each breaks one thing that package usage of test/cluster checks.
const (
	// UntoldEnd doesn't tell the API server that a pod has ended.
	UntoldEnd Name = "untold-end"
	// UncompletedDeletion leaves pods at the API server that are being deleted, and of which nothing is left here.
	UncompletedDeletion Name = "uncompleted-deletion"
	// LeaveMirror leaves the mirror pods of static pods that are gone.
	LeaveMirror Name = "leave-mirror"
)

// Names are the faults that break a promise, in the order of the promises.
func Names() []Name {
	return []Name{
		ReorderRevisions, SkipRevision, ResendCovered, EarlyCursor, EmitUnchanged,
		SkipCommit, ForgetTombstones, SendUnderLock, EarlyReady, DropLeave,
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
