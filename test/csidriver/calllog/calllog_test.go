package calllog

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// script is a log that a test writes, one word for each event:
//
//	start            the driver starts (again)
//	A.stage          call A begins: NodeStageVolume
//	A.publish=/t     call A begins: NodePublishVolume at the target /t
//	A.unpublish=/t, A.unstage, A.stats
//	A:CODE           call A ends with the code
//	A!               the caller of A has gone
//	off              the node is powered off
//
// node=N sets the node of what follows, args=JSON the arguments of the next call.
func script(t *testing.T, words string) *Log {
	t.Helper()
	path := filepath.Join(t.TempDir(), "calls")
	w, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	methods := map[string]string{
		"stage": "NodeStageVolume", "unstage": "NodeUnstageVolume", "publish": "NodePublishVolume", "unpublish": "NodeUnpublishVolume",
		"stats": "NodeGetVolumeStats",
	}
	node, run, args := "n1", 0, ""
	runs := map[string]string{}
	begun := map[byte]Record{}
	for number, word := range strings.Fields(words) {
		r := Record{Time: time.Unix(int64(number), 0).UTC(), Driver: "d", Node: node, Run: runs[node]}
		switch {
		case word == "start" || word == "start-attach":
			run++
			runs[node] = string(rune('a' + run))
			r.Event, r.Run, r.Stages, r.Attaches = Start, runs[node], true, word == "start-attach"
		case word == "off":
			r.Event, r.Run = Off, ""
		case strings.HasPrefix(word, "node="):
			node = word[len("node="):]
			continue
		case strings.HasPrefix(word, "args="):
			args = word[len("args="):]
			continue
		default:
			r.Call = int(word[0])
			switch word[1] {
			case '.':
				method, target, _ := strings.Cut(word[2:], "=")
				r.Event, r.Method, r.Volume, r.Target = Begin, methods[method], "v", target
				if !strings.HasPrefix(method, "unp") {
					r.Staging = "/s"
				}
				if args == "" {
					args = `{"volume_capability":{"access_mode":{"mode":"SINGLE_NODE_WRITER"}},"publish_context":{"a":"b"}}`
				}
				r.Args, args = json.RawMessage(args), ""
				begun[word[0]] = r
			case ':':
				r.Event = End
				if err := r.Code.UnmarshalJSON([]byte(`"` + word[2:] + `"`)); err != nil {
					t.Fatal(err)
				}
			case '!':
				r.Event = Gone
			}
			if r.Event != Begin {
				r.Node, r.Run = begun[word[0]].Node, begun[word[0]].Run
			}
		}
		if err := w.Write(&r); err != nil {
			t.Fatal(err)
		}
	}
	log, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// whole is a correct history.
const whole = "start A.stage A:OK B.publish=/t B:OK C.stats C:OK D.unpublish=/t D:OK E.unstage E:OK"

// TestChecks: each check finds its planted fault, and no other check finds it.
func TestChecks(t *testing.T) {
	for _, test := range []struct{ name, log, want string }{
		{"correct", whole, ""},
		{"repeated", "start A.stage A:UNAVAILABLE B.stage B:OK C.publish=/t C:DEADLINE_EXCEEDED D.publish=/t D:OK " +
			"E.unpublish=/t E:OK F.unpublish=/t F:OK G.unstage G:INTERNAL H.unstage H:OK", ""},
		{"repeated after the caller's time-out", "start A.stage A! B.stage B:ABORTED A:OK C.stage C:OK D.unstage D:OK", ""},
		{"repeated after a death", "start A.stage start B.stage B:OK C.unstage start D.unstage D:OK", ""},
		{"first call refused", "start A.stage A:INVALID_ARGUMENT", ""},
		{"stats at any time", "start A.stage B.stats A:OK B:OK C.unstage C:OK", ""},
		{"moved", whole + " node=n2 start F.stage F:OK G.unstage G:OK", ""},
		{"moved after the node was powered off", "start A.stage A:OK B.publish=/t B:OK off node=n2 start F.stage F:OK G.unstage G:OK", ""},
		{"powered off in the midst of a call", "start A.stage off node=n2 start F.stage F:OK G.unstage G:OK", ""},
		{"powered off, and back", "start A.stage A:OK off start B.stage B:OK C.unstage C:OK", ""},
		{"moved before the node was powered off", "start A.stage A:OK node=n2 start F.stage F:OK node=n1 off node=n2 G.unstage G:OK", "OneNode"},
		{"another node was powered off", "start A.stage A:OK node=n2 off start F.stage F:OK G.unstage G:OK node=n1 B.unstage B:OK", "OneNode"},
		{"back, and moved", "start A.stage A:OK off start B.stage B:OK node=n2 start F.stage F:OK G.unstage G:OK node=n1 C.unstage C:OK", "OneNode"},

		{"two calls at once", "start A.stage B.stage A:OK B:OK C.unstage C:OK", "Overlaps"},
		{"two calls after a third has gone", "start A.stage A! B.stage C.stage B:OK C:OK A:ABORTED D.unstage D:OK", "Overlaps"},
		{"published without staging", "start A.publish=/t A:OK B.unpublish=/t B:OK", "StageBeforePublish"},
		{"published after a failed stage", "start A.stage A:UNAVAILABLE B.publish=/t B:OK C.unpublish=/t C:OK D.unstage D:OK", "StageBeforePublish"},
		{"published after an uncertain unstage", "start A.stage A:OK B.unstage B:UNAVAILABLE C.publish=/t C:OK D.unpublish=/t D:OK E.unstage E:OK",
			"StageBeforePublish"},
		{"published after a refused unstage", "start A.stage A:OK B.unstage B:INTERNAL C.publish=/t C:OK D.unpublish=/t D:OK E.unstage E:OK", ""},
		{"unstaged while published", "start A.stage A:OK B.publish=/t B:OK C.unstage C:OK D.unpublish=/t D:OK", "UnpublishBeforeUnstage"},
		{"unstaged while perhaps published", "start A.stage A:OK B.publish=/t B:UNAVAILABLE C.unstage C:OK D.unpublish=/t D:OK",
			"UnpublishBeforeUnstage"},
		{"unstaged while perhaps published, after a refusal",
			"start A.stage A:OK B.publish=/t start C.publish=/t C:INTERNAL D.unstage D:OK E.unpublish=/t E:OK", "UnpublishBeforeUnstage"},
		{"unstaged before the answer of unpublish", "start A.stage A:OK B.publish=/t B:OK C.unpublish=/t C! D.unstage D:OK C:OK", "UnpublishBeforeUnstage"},
		{"staged again with others", "start args={\"volume_id\":\"v\"} A.stage A:UNAVAILABLE B.stage B:OK C.unstage C:OK", "SameArguments"},
		{"published again with others", "start A.stage A:OK B.publish=/t B:OK args={} C.publish=/t C:OK D.unpublish=/t D:OK E.unstage E:OK",
			"SameArguments AttachBeforeStage"},
		{"in use on two nodes", "start A.stage A:OK node=n2 start F.stage F:OK G.unstage G:OK node=n1 B.unstage B:OK", "OneNode"},
		{"perhaps in use on two nodes", "start A.stage A:OK B.unstage B:UNAVAILABLE node=n2 start F.stage F:OK G.unstage G:OK node=n1 C.unstage C:OK",
			"OneNode"},
		{"not attached", "start-attach args={} A.stage A:OK B.unstage B:OK", "AttachBeforeStage"},

		{"staged at the end", "start A.stage A:OK", "NothingLeft"},
		{"perhaps staged at the end", "start A.stage start", "NothingLeft"},
		{"perhaps published at the end", "start A.stage A:OK B.publish=/t B:ABORTED", "NothingLeft"},
		{"perhaps unpublished at the end", "start A.stage A:OK B.publish=/t B:OK C.unpublish=/t C:UNAVAILABLE D.stats D:OK", "NothingLeft"},
		{"under way at the end", "start A.stats", "NothingLeft"},
	} {
		t.Run(test.name, func(t *testing.T) {
			words := test.log
			if strings.Contains(test.want, "AttachBeforeStage") {
				words = strings.Replace(words, "start ", "start-attach ", 1)
			}
			log := script(t, words)
			for name, check := range Checks {
				problems := check(log.Calls)
				if wanted := slices.Contains(strings.Fields(test.want), name); wanted != (len(problems) > 0) {
					t.Errorf("%s finds %q", name, problems)
				}
			}
			left := NothingLeft(log.Calls)
			if wanted := test.want == "NothingLeft"; wanted != (len(left) > 0) {
				t.Errorf("NothingLeft finds %q", left)
			}
			if got := Check(log.Calls); (len(got) == 0) != (test.want == "" || test.want == "NothingLeft") {
				t.Errorf("Check finds %q", got)
			}
		})
	}
}

// TestOverlapThatEnded: the driver saw two calls at once, though the first has ended before the second's line was written.
func TestOverlapThatEnded(t *testing.T) {
	log := script(t, "start A.stage A:OK B.stage B:OK")
	if got := Overlaps(log.Calls); len(got) != 0 {
		t.Errorf("found %q", got)
	}
	log.Calls[1].Overlaps = []int{log.Calls[0].Call}
	if got := Overlaps(log.Calls); len(got) != 1 {
		t.Errorf("found %q; want one overlap", got)
	}
}

// TestInline: an inline volume is published without staging.
func TestInline(t *testing.T) {
	log := script(t, `start args={"volume_context":{"csi.storage.k8s.io/ephemeral":"true"}} A.publish=/t A:OK B.unpublish=/t B:OK`)
	if got := Check(log.Calls); len(got) != 0 {
		t.Errorf("found %q", got)
	}
}

// TestCrashedMachine: an incomplete line is accepted before a start and at the end, and is an error elsewhere.
func TestCrashedMachine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	write := func(event Event, run string) {
		t.Helper()
		w, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		r := &Record{Event: event, Driver: "d", Node: "n", Run: run}
		if event == Begin {
			r.Call, r.Method, r.Args = 1, "Probe", json.RawMessage("{}")
		}
		if err := w.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	tear := func() {
		t.Helper()
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(`{"time":"2026`); err != nil {
			t.Fatal(err)
		}
	}
	write(Start, "a")
	write(Begin, "a")
	tear()
	log, err := Read(path)
	if err != nil || log.Torn != 1 || len(log.Calls) != 1 || log.Calls[0].Cut {
		t.Fatalf("read %+v, %v; want a call under way, and an incomplete line", log, err)
	}
	write(Start, "b")
	log, err = Read(path)
	if err != nil || log.Torn != 1 || len(log.Starts) != 2 || !log.Calls[0].Cut {
		t.Fatalf("read %+v, %v; want two starts, and the first one's call cut", log, err)
	}
	tear()
	write(Begin, "b")
	if log, err = Read(path); err == nil {
		t.Errorf("read %+v; want an error for a line that is incomplete in the midst of a run", log)
	}
}

// TestStrangeRecords: a log that can't be of the driver is an error.
func TestStrangeRecords(t *testing.T) {
	for _, records := range [][]Record{
		{{Event: Begin, Run: "a", Call: 1}},
		{{Event: Start, Run: "a"}, {Event: End, Run: "a", Call: 1}},
		{{Event: Start, Run: "a"}, {Event: Start, Run: "b"}, {Event: Begin, Run: "a", Call: 1}},
		{{Event: Start, Run: "a"}, {Event: Off}, {Event: Begin, Run: "a", Call: 1}}, // The driver lives on.
		{{Event: Start, Run: "a"}, {Event: Begin, Run: "a", Call: 1}, {Event: "pause", Run: "a", Call: 1}},
	} {
		var text strings.Builder
		for _, r := range records {
			_ = json.NewEncoder(&text).Encode(r)
		}
		if log, err := read(strings.NewReader(text.String())); err == nil {
			t.Errorf("%s is read as %+v", text.String(), log)
		}
	}
}

// TestClosed: nothing is written after Close, and the call that wanted it gets an error.
func TestClosed(t *testing.T) {
	w, err := Open(filepath.Join(t.TempDir(), "calls"))
	if err != nil {
		t.Fatal(err)
	}
	w.Close()
	if w.Write(&Record{Event: Start}) == nil {
		t.Error("a closed log is written")
	}
}

// TestFiltered: calls are found by method and by success.
func TestFiltered(t *testing.T) {
	log := script(t, "start A.stage A:UNAVAILABLE B.stage B:OK C.unstage C:OK")
	if got := log.Of("NodeStageVolume"); len(got) != 2 || len(Succeeded(got)) != 1 || got[0].Code != codes.Unavailable {
		t.Errorf("found %v", got)
	}
}
