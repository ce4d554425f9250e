package survival

import (
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestCheckers gives histories to all checkers, correct ones and wrong ones, and expects breaches only from the
// checker that the history is for.
func TestCheckers(t *testing.T) {
	for _, tc := range []struct {
		name string
		s    *story
		// want are the checkers that report a breach, and a part of the first message.
		want []string
		says string
	}{
		{"nothing happens", newStory(always, stays), nil, ""},
		{"a pod is added and stays", newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).looks(3, 1, v1.PodRunning).showed(3, true, 2), nil, ""},
		{"a pod is removed", newStory(always, slow).did(1, Desire).ran(2, 0, 0, 0).looks(3, 1, v1.PodRunning).did(4, Drop).looks(20, 0, gone), nil, ""},
		{
			"a job ends",
			newStory(never, ends).did(1, Desire).ran(2, 0, 3, 0).looks(4, 0, v1.PodSucceeded).showed(2, true, 2).showed(3, false, 3), nil, "",
		},

		// Once.
		{"it doesn't run", newStory(always, stays).did(1, Desire).looks(5, 0, v1.PodPending), []string{"Once"}, "doesn't run"},
		{"it isn't quiet yet", newStory(always, stays).did(1, Desire).looks(5, 0, ""), nil, ""},
		{"it runs twice", newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).looks(3, 2, ""), []string{"Once"}, "runs 2 times"},
		{
			"the runtime reports a container whose shim has died",
			newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).did(3, Harm).did(3, ShimKilled).looks(4, 2, ""), nil, "",
		},
		{
			"it runs twice long after its shim has died",
			newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).did(3, Harm).did(3, ShimKilled).looks(9, 2, ""), []string{"Once"}, "runs 2 times",
		},
		{
			"it runs twice after a process was killed",
			newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).did(3, Harm).looks(4, 2, ""), []string{"Once"}, "runs 2 times",
		},
		{"it fails", newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).looks(5, 0, v1.PodFailed), []string{"Once"}, "is Failed"},
		{"a Never pod is killed", newStory(never, stays).did(1, Desire).ran(2, 0, 0, 0).did(3, Harm).looks(5, 0, v1.PodFailed), nil, ""},
		{"a job runs on", newStory(never, ends).did(1, Desire).ran(2, 0, 0, 0).looks(5, 1, v1.PodRunning), []string{"Once", "Once"}, "still runs"},
		{"a job hangs", newStory(never, ends).did(1, Desire).looks(5, 0, v1.PodPending), []string{"Once"}, "should have ended"},
		{"a container that its diary doesn't show", newStory(always, stays).did(1, Desire).ran(2, 0, 3, 0).looks(5, 1, v1.PodRunning), []string{"Once"}, "its diary shows that it doesn't"},
		{
			"a container whose end after harm the runtime hasn't reported yet",
			newStory(always, stays).did(1, Desire).ran(2, 0, 3, 0).did(3, Harm).looks(5, 1, v1.PodRunning), nil, "",
		},
		{
			"a container whose end after harm the runtime doesn't report",
			newStory(always, stays).did(1, Desire).ran(2, 0, 3, 0).did(3, Harm).looks(9, 1, v1.PodRunning), []string{"Once"}, "its diary shows that it doesn't",
		},
		{"a container without a sandbox", newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).looks(5, 1, v1.PodRunning).unready(), []string{"Once"}, "its sandbox doesn't"},
		{"a container without a diary", newStory(never, stays).did(1, Desire).looks(5, 1, v1.PodRunning), []string{"Once"}, "its diary shows that it doesn't"},
		{
			"a container that was killed before the first line of its diary",
			newStory(never, stays).did(1, Desire).looks(5, 1, v1.PodRunning).did(6, Harm), nil, "",
		},
		{
			"a container that ended, is reported to run, and was killed later",
			newStory(always, stays).did(1, Desire).ran(2, 0, 3, 0).looks(5, 1, v1.PodRunning).did(6, Harm), []string{"Once"}, "its diary shows that it doesn't",
		},
		{
			"a container without a diary whose pod was harmed long after",
			newStory(never, stays).did(1, Desire).looks(5, 1, v1.PodRunning).did(21, Harm), []string{"Once"}, "its diary shows that it doesn't",
		},
		{
			"two runs at once",
			newStory(always, stays).did(1, Desire).did(1, Harm).ran(2, 9, 10, 0).ran(5, 0, 0, 0), []string{"Once"}, "hasn't ended yet",
		},

		// Clean.
		{"a sandbox is left", newStory(always, stays).did(1, Desire).did(2, Drop).looks(9, 0, v1.PodSucceeded), []string{"Clean"}, "sandbox s"},
		{
			"a container is left",
			newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).did(3, Drop).looks(9, 1, gone), []string{"Clean"}, "container main",
		},
		{
			"a directory is left",
			newStory(always, stays).did(1, Desire).did(2, Drop).looks(9, 0, gone).traced(Trace{Path: "/pods/u", UID: "u"}), []string{"Clean"}, "/pods/u",
		},
		{
			"a cgroup is left",
			newStory(never, ends).did(1, Desire).looks(9, 0, v1.PodSucceeded).traced(Trace{Path: "/c", ID: "x"}), []string{"Clean"}, "no longer exists: /c",
		},
		{
			"a pod's cgroup is left",
			newStory(always, stays).did(1, Desire).did(2, Drop).looks(9, 0, gone).traced(Trace{Path: "/c/podu", UID: "u"}), []string{"Clean"}, "/c/podu",
		},
		{
			"a desired pod's traces",
			newStory(never, ends).did(1, Desire).looks(9, 0, v1.PodSucceeded).traced(Trace{Path: "/c", ID: "s"}).traced(Trace{Path: "/d", UID: "u"}), nil, "",
		},
		{
			"a runtime died and left a cgroup",
			newStory(never, ends).did(1, Desire).did(2, RuntimeKilled).looks(9, 0, v1.PodSucceeded).traced(Trace{Path: "/c", UID: "u", ID: "x", Own: true}),
			nil, "",
		},
		{
			"a runtime forgot a sandbox with its mount",
			newStory(never, ends).did(1, Desire).looks(9, 0, v1.PodSucceeded).traced(Trace{Path: "/m", UID: "u", ID: "x", Own: true, Forgotten: true}),
			nil, "",
		},
		{
			"a runtime left a mount",
			newStory(never, ends).did(1, Desire).looks(9, 0, v1.PodSucceeded).traced(Trace{Path: "/m", UID: "u", ID: "x", Own: true}),
			[]string{"Clean"}, "no longer exists: /m",
		},
		{
			"podexecd died and left a link",
			newStory(never, ends).did(1, Desire).did(2, AgentDied).looks(9, 0, v1.PodSucceeded).traced(Trace{Path: "/l", UID: "u", ID: "x"}),
			[]string{"Clean"}, "no longer exists: /l",
		},
		{
			"the runtime has lost a log",
			newStory(never, ends).did(1, Desire).did(2, Harm).looks(9, 0, v1.PodSucceeded).traced(Trace{Path: "/l", UID: "u", ID: "x"}), nil, "",
		},

		// Unharmed.
		{"a restart without a cause", newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).ran(9, 0, 0, 0), []string{"Unharmed"}, "without a cause"},
		{"a restart by podexecd", newStory(always, stays).did(1, Desire).ran(2, 8, 8.5, 143).ran(9, 0, 0, 0), []string{"Unharmed"}, "got SIGTERM"},
		{"a restart after podexecd was killed", newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).did(7, AgentKilled).ran(9, 0, 0, 0), []string{"Unharmed"}, ""},
		{"a start that was cut short", newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).did(2.2, AgentKilled).ran(9, 0, 0, 0), nil, ""},
		{
			"a start that can't be cut short",
			newStory(always, stays).whole().did(1, Desire).ran(2, 0, 0, 0).did(2.2, AgentKilled).ran(9, 0, 0, 0), []string{"Unharmed"}, "",
		},
		{"a restart after harm", newStory(always, stays).did(1, Desire).ran(2, 0, 0, 0).did(7, Harm).ran(9, 0, 0, 0), nil, ""},
		{"a crash", newStory(always, stays).did(1, Desire).ran(2, 0, 8, 0).ran(9, 0, 0, 0), nil, ""},
		{"a failure", newStory(onFailure, ends).did(1, Desire).ran(2, 0, 3, 1).ran(4, 0, 5, 0), nil, ""},
		{"a success that is repeated", newStory(onFailure, ends).did(1, Desire).ran(2, 0, 3, 0).ran(4, 0, 5, 0), []string{"Unharmed"}, "ended at"},
		{"a job that is repeated", newStory(never, ends).did(1, Desire).ran(2, 0, 3, 1).ran(4, 0, 5, 0), []string{"Unharmed"}, ""},

		// Grace.
		{"it ends by itself", newStory(always, slow).did(1, Desire).ran(2, 10, 16, 0).did(10, Drop).looks(16, 1, "").looks(17, 0, gone), nil, ""},
		{
			"it is killed within its grace period",
			newStory(always, slow).did(1, Desire).ran(2, 10, 0, 0).did(10, Drop).looks(12, 1, "").looks(13, 0, gone).looks(30, 0, gone),
			[]string{"Grace"}, "was killed",
		},
		{
			"it is killed within its grace period, and isn't observed for long",
			newStory(always, slow).did(1, Desire).ran(2, 10, 0, 0).did(10, Drop).looks(12, 1, "").looks(13, 0, gone), []string{"Grace"}, "and was gone at",
		},
		{
			"another process kills it",
			newStory(always, slow).did(1, Desire).ran(2, 10, 0, 0).did(10, Drop).did(11, Harm).looks(12, 0, gone).looks(30, 0, gone), nil, "",
		},
		{
			"the SIGTERM comes late",
			newStory(always, slow).did(1, Desire).ran(2, 16, 22, 0).did(10, Drop).looks(17, 1, "").looks(23, 0, gone).looks(30, 0, gone), nil, "",
		},
		{
			"the SIGTERM comes late, and the rest of the grace period is lost",
			newStory(always, slow).did(1, Desire).ran(2, 16, 0, 0).did(10, Drop).looks(17, 1, "").looks(19, 0, gone).looks(30, 0, gone),
			[]string{"Grace"}, "was killed",
		},
		{
			"podexecd is away for longer than the grace period before the SIGTERM, and it is killed",
			newStory(always, slow).did(1, Desire).ran(2, 40, 0, 0).did(10, Drop).did(10.1, AgentKilled).did(39, AgentStarted).
				looks(41, 1, "").looks(42.5, 0, gone).looks(60, 0, gone),
			[]string{"Grace"}, "was killed",
		},
		{
			"a sidecar receives SIGTERM when the other containers have ended",
			newStory(always, sidecar).did(1, Desire).ran(2, 16, 0, 0).did(10, Drop).looks(17, 1, "").looks(19, 0, gone).looks(30, 0, gone), nil, "",
		},
		{
			"a container that ignores SIGTERM is killed in time",
			newStory(always, stubborn).did(1, Desire).ran(2, 10, 0, 0).did(10, Drop).looks(17, 1, "").looks(18.2, 0, gone), nil, "",
		},
		{
			"a container that ignores SIGTERM is killed early",
			newStory(always, stubborn).did(1, Desire).ran(2, 10, 0, 0).did(10, Drop).looks(12, 1, "").looks(12.2, 0, gone), []string{"Grace"}, "and was gone at",
		},
		{
			"a container that ignores SIGTERM isn't killed",
			newStory(always, stubborn).did(1, Desire).ran(2, 10, 0, 0).did(10, Drop).looks(40, 1, ""), []string{"Grace"}, "still ran",
		},
		{
			"podexecd is not running, so it isn't killed",
			newStory(always, stubborn).did(1, Desire).ran(2, 10, 0, 0).did(10, Drop).did(11, AgentKilled).did(35, AgentStarted).looks(40, 1, ""), nil, "",
		},

		// Steady.
		{"readiness flips", newStory(always, stays).did(1, Desire).showed(3, true, 2).showed(5, false, 5), []string{"Steady"}, "is no longer ready"},
		{"readiness flips between two observations", newStory(always, stays).did(1, Desire).showed(3, true, 2).showed(5, true, 4), []string{"Steady"}, "reports ready since"},
		{
			"podexecd dies before it has stored the readiness",
			newStory(always, stays).did(1, Desire).showed(3, true, 3).did(3.2, AgentKilled).showed(5, true, 5), nil, "",
		},
		{
			"the readiness arrives after podexecd's death",
			newStory(always, stays).did(1, Desire).did(2.9, AgentKilled).showed(3, true, 3).did(4, AgentStarted).showed(5, true, 5), nil, "",
		},
		{
			"podexecd died, and was started, before it showed the readiness",
			newStory(always, stays).did(1, Desire).did(2, AgentKilled).did(2.5, AgentStarted).showed(3, true, 3).showed(5, true, 5),
			[]string{"Steady"}, "reports ready since",
		},
		{
			"podexecd dies after it has stored the readiness",
			newStory(always, stays).did(1, Desire).showed(3, true, 3).showed(3.5, true, 3).did(5.5, AgentKilled).showed(7, true, 7),
			[]string{"Steady"}, "reports ready since",
		},
		{"a dropped pod is shown again", newStory(always, stays).did(1, Desire).did(2, Drop).showed(3, true, 2.5).showed(5, false, 5), nil, ""},
		{"it wasn't ready yet", newStory(always, stays).did(1, Desire).showed(3, false, 2).showed(5, true, 5), nil, ""},
		{"it is harmed", newStory(always, stays).did(1, Desire).showed(3, true, 2).did(4, Harm).showed(5, false, 5), nil, ""},
		{"it is dropped", newStory(always, stays).did(1, Desire).showed(3, true, 2).did(4, Drop).showed(5, false, 5), nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			slices.SortStableFunc(tc.s.Deeds, func(a, b Deed) int { return a.At.Compare(b.At) })
			breaches := Breaches(&tc.s.History)
			var reported []string
			for _, b := range breaches {
				reported = append(reported, b.Checker)
			}
			if !slices.Equal(reported, tc.want) || len(breaches) > 0 && !strings.Contains(breaches[0].Error(), tc.says) {
				t.Errorf("%v; want %v, and %q", breaches, tc.want, tc.says)
			}
		})
	}
}
