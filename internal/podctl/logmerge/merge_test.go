package logmerge_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/podstream/podstream/internal/podctl/logmerge"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// script is a stream of messages. A text that begins with "!" is on standard error; one with "?" is a
// container that podexecd chose.
type script struct {
	texts []string
	// err ends the stream. Nil: io.EOF.
	err error
	// hold, if not nil, is awaited at the end.
	hold context.Context
}

func (s *script) Recv() (*podexecv1.ReadLogsResponse, error) {
	if len(s.texts) == 0 {
		if s.hold != nil {
			<-s.hold.Done()
			return nil, s.hold.Err()
		}
		if s.err != nil {
			return nil, s.err
		}
		return nil, io.EOF
	}
	if name, ok := strings.CutPrefix(s.texts[0], "?"); ok {
		s.texts = s.texts[1:]
		return &podexecv1.ReadLogsResponse{Defaulted: &podexecv1.DefaultedContainer{Name: name}}, nil
	}
	text, stderr := strings.CutPrefix(s.texts[0], "!")
	s.texts = s.texts[1:]
	return &podexecv1.ReadLogsResponse{Data: []byte(text), Stderr: stderr}, nil
}

// named is a prefix.
func named(text string) func(string) string { return func(string) string { return text } }

// chosen is a prefix with the container's name.
func chosen(container string) string { return "[" + container + "]" }

var errBroken = errors.New("broken")

func TestMerge(t *testing.T) {
	const a, b, c = "2026-03-01T12:00:00.1Z ", "2026-03-01T12:00:00.25Z ", "2026-03-01T13:00:01+01:00 "
	long := strings.Repeat("x", logmerge.MaxLine)
	for name, tc := range map[string]struct {
		first, second script
		untimed       bool
		timestamps    bool
		want          string
		failed        []string
	}{
		"by time":                         {first: script{texts: []string{a + "one\n" + c + "three\n"}}, second: script{texts: []string{b + "two\n"}}, want: "A one|B two|A three|"},
		"with times":                      {first: script{texts: []string{b + "two\n"}}, second: script{texts: []string{a + "one\n"}}, timestamps: true, want: "B " + a + "one|A " + b + "two|"},
		"equal times":                     {first: script{texts: []string{a + "one\n"}}, second: script{texts: []string{a + "two\n"}}, want: "A one|B two|"},
		"split between messages":          {first: script{texts: []string{b[:5], b[5:] + "t", "wo\n"}}, second: script{texts: []string{a + "one\n"}}, want: "B one|A two|"},
		"two streams":                     {first: script{texts: []string{a + "ou", "!" + a + "er", "t\n", "!r\n"}}, want: "A out|A err|"},
		"the last line has no end":        {first: script{texts: []string{a + "one"}}, second: script{texts: []string{b + "two"}}, want: "A one|B two|"},
		"a line without a time":           {first: script{texts: []string{b + "two\nmore\n"}}, second: script{texts: []string{a + "one\n" + c + "three\n"}}, want: "B one|A two|A more|B three|"},
		"one fails":                       {first: script{texts: []string{a + "one\n" + a + "ha"}, err: errBroken}, second: script{texts: []string{b + "two\n"}}, want: "A one|A ha|B two|", failed: []string{"A"}},
		"a long line":                     {first: script{texts: []string{a + long + "yz\n" + c + "end\n"}}, want: "A " + long[len(a):] + "|A " + long[:len(a)] + "yz|A end|"},
		"a container that podexecd chose": {first: script{texts: []string{"?app", a + "one\n"}}, want: "A one|"},
		"without times":                   {first: script{texts: []string{c + "one\nmore\n"}}, second: script{texts: []string{a + "two\n"}}, untimed: true, want: "A " + c + "one|A more|B " + a + "two|"},
		"none":                            {},
		"empty lines":                     {first: script{texts: []string{a + "\n\n"}}, want: "A |A |"},
	} {
		var out bytes.Buffer
		var failed []string
		err := logmerge.Merge(logmerge.Config{
			Logs: []logmerge.Log{{Name: "A", Prefix: named("A"), Stream: &tc.first}, {Name: "B", Prefix: named("B"), Stream: &tc.second}}, Out: &out, Timed: !tc.untimed, Timestamps: tc.timestamps,
			Failed: func(l logmerge.Log, err error) {
				if !errors.Is(err, errBroken) {
					t.Errorf("%s: %v", name, err)
				}
				failed = append(failed, l.Name)
			},
			Defaulted: func(*podexecv1.DefaultedContainer) {},
		})
		if got := strings.ReplaceAll(out.String(), "\n", "|"); got != tc.want || err != nil || !slices.Equal(failed, tc.failed) {
			t.Errorf("%s: %.300q, failed %v, error %v; want %.300q", name, got, failed, err, tc.want)
		}
	}
}

// Lines come whole, and each log's in its order; a log that fails doesn't end the others.
func TestFollow(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	failed, defaulted := 0, 0
	err := logmerge.Follow(ctx, cancel, logmerge.Config{
		Logs: []logmerge.Log{
			{Prefix: named("[a]"), Stream: &script{texts: []string{"on", "e\ntw", "o\n"}}},
			{Prefix: chosen, Stream: &script{texts: []string{"?b", "x\n"}, err: errBroken}},
			{Stream: &script{texts: []string{"bare"}}},
		},
		Out: &out, Failed: func(logmerge.Log, error) { failed++ }, Defaulted: func(*podexecv1.DefaultedContainer) { defaulted++ },
	})
	lines := strings.Split(out.String(), "\n")
	if err != nil || failed != 1 || defaulted != 1 || slices.Index(lines, "[a] one") > slices.Index(lines, "[a] two") {
		t.Errorf("error %v, failed %d, output %q", err, failed, lines)
	}
	slices.Sort(lines)
	if want := []string{"", "[a] one", "[a] two", "[b] x", "bare"}; !slices.Equal(lines, want) {
		t.Errorf("output %q, want %q", lines, want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errBroken }

// The end of the context, and a failed print, end it; goleak finds a reader that stays.
func TestFollowEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	logs := func() []logmerge.Log {
		return []logmerge.Log{{Stream: &script{texts: []string{"one\n", "two\n"}, hold: ctx}}, {Stream: &script{hold: ctx}}}
	}
	failed := func(_ logmerge.Log, err error) { t.Errorf("failed: %v", err) }
	if err := logmerge.Follow(ctx, cancel, logmerge.Config{Logs: logs(), Out: broken{}, Failed: failed}); !errors.Is(err, errBroken) {
		t.Errorf("a failed print: %v", err)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := logmerge.Follow(ctx, cancel, logmerge.Config{Logs: logs(), Out: io.Discard, Failed: failed}); err != nil {
		t.Errorf("the end: %v", err)
	}
}
