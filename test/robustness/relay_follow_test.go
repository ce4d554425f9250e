package robustness_test

import (
	"errors"
	"strings"
	"testing"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/robustness"
)

// chainHead returns the head of a chain. web is changed; job is removed and added again. If lost is set, its
// store is then lost, and only file has delivered a set since.
func chainHead(t *testing.T, lost bool) *robustness.Run {
	s := newScript(t, "file", "api")
	s.start(false, "i1", 0)
	s.set("file", "a: web(uid=u1)\nb: still(uid=u2)", 1)
	s.set("api", "x: job(uid=j1)", 2)
	s.set("file", "a: web(uid=u1,image=2)\nb: still(uid=u2)", 3)
	s.set("api", "", 4)
	s.set("api", "x: job(uid=j1)", 5)
	if lost {
		s.start(false, "i1", 0)
		s.set("file", "a: web(uid=u1,image=2)\nb: still(uid=u2)", 1)
	}
	return robustness.NewRun(&s.history)
}

// chainEnd is what the witness and another consumer read at the end of a correct chain, since one start.
const chainEnd = `
	SYNCED relay #0
	ADD relay @1 web(uid=u1) still(uid=u2) #1
	ADD relay! @2 job(uid=j1) #2
	UPDATE relay! @3 web(uid=u1,image=2) #3
	REMOVE relay! @4 job(uid=j1) #4
	ADD relay! @6 job(uid=j1) #6
	HEARTBEAT 7 relay! #7`

// endOf returns the run of an end whose witness and other consumer read these lines.
func endOf(t *testing.T, witness, other string) *robustness.Run {
	t.Helper()
	s := newScript(t, "relay")
	s.start(false, "i1", 0)
	content := &podconfigv1.WatchPodUpdatesRequest{Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF}
	w := s.consumer("witness")
	s.reads(w, 1, content, witness)
	s.reads(s.consumer("other"), 1, reference(nil), other)
	return robustness.NewRelayRun(&s.history, "relay", w)
}

// TestRelayed checks that the end may have only what the head had, in the same order. Pods that the head lost
// with its store may be removed and added again: in the middle, another pod may take their name for a while.
func TestRelayed(t *testing.T) {
	const job = "ADD relay! @6 job(uid=j1) #6\n\tHEARTBEAT 7 relay! #7"
	for _, tc := range []struct {
		name        string
		of, instead string
		kept, lost  string
	}{
		{"good", job, job, "", ""},
		{"left out", "UPDATE relay! @3 web(uid=u1,image=2) #3\n", "", "", ""},
		{"a version that the head never had", "image=2", "image=3", "pod u1", "pod u1"},
		{"backwards", job, "UPDATE relay! @6 web(uid=u1) #6\nUPDATE relay! @7 web(uid=u1,image=2) #7", "pod u1", ""},
		{"removed", job, "REMOVE relay! @6 still(uid=u2) #6", "pod u2", ""},
		{"removed and back", job, "ADD relay! @6 job(uid=j1) #6\nREMOVE relay! @7 job(uid=j1) #7\nADD relay! @8 job(uid=j1) #8",
			"pod j1", ""},
	} {
		lines := strings.ReplaceAll(chainEnd, tc.of, tc.instead)
		end := endOf(t, lines, lines)
		for lost, want := range map[bool]string{false: tc.kept, true: tc.lost} {
			err := robustness.Relayed(chainHead(t, lost), end)
			if want == "" && err != nil || want != "" && (!errors.Is(err, robustness.ErrStray) || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s, store lost=%v: the error is %v; want %q", tc.name, lost, err, want)
			}
		}
	}
}

// TestUndisturbed checks that a bystander that is removed, changed, or left out of a SET is found.
func TestUndisturbed(t *testing.T) {
	for _, tc := range []struct{ lines, uid, want string }{
		{chainEnd, "u2", ""},
		{chainEnd, "u1", "u1 changes"},
		{chainEnd, "j1", "j1 is removed"},
		{"ADD relay web(uid=u1) #1\nSYNCED relay #1", "u2", ""},
		{"ADD relay! web(uid=u1) #1\nSYNCED relay! #1", "u2", "has no u2"},
	} {
		err := robustness.Undisturbed(endOf(t, tc.lines, tc.lines), tc.uid)
		if tc.want == "" && err != nil || tc.want != "" && (!errors.Is(err, robustness.ErrStray) || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("for %s in %s the error is %v; want %q", tc.uid, tc.lines, err, tc.want)
		}
	}
}

// TestRelayRun checks that the checkers compare another consumer with the witness.
func TestRelayRun(t *testing.T) {
	for _, tc := range []struct{ lines, want string }{
		{chainEnd, ""},
		{"ADD relay web(uid=u1) still(uid=u2) #1\nSYNCED relay #1\nHEARTBEAT 1 relay\nADD relay! @2 job(uid=j1) #2\n" +
			"UPDATE relay! @3 web(uid=u1,image=2) #3\nREMOVE relay! @4 job(uid=j1) #4\nHEARTBEAT 5 relay!\n" +
			"ADD relay! @6 job(uid=j1) #6", ""},
		{strings.ReplaceAll(chainEnd, "UPDATE relay! @3 web(uid=u1,image=2) #3\n", ""), "Reliable"},
		{strings.ReplaceAll(chainEnd, "image=2", "image=3"), "Reliable"},
		{strings.ReplaceAll(chainEnd, "@3", "@4"), "Ordered"},
		{strings.ReplaceAll(chainEnd, "ADD relay! @2", "ADD relay @2"), "Ready"},
		{strings.ReplaceAll(chainEnd, "ADD relay! @6 job(uid=j1) #6", "ADD relay! @6 job(uid=j1) #5"), "Reliable"},
	} {
		run := endOf(t, chainEnd, tc.lines)
		var broken []string
		for _, c := range robustness.Checkers() {
			if err := c.Check(run); err != nil {
				broken = append(broken, c.Name)
			}
		}
		if got := strings.Join(broken, " "); !strings.Contains(got, tc.want) || tc.want == "" && got != "" {
			t.Errorf("for\n%s\nthe broken promises are %q; want %q", tc.lines, got, tc.want)
		}
	}
}
