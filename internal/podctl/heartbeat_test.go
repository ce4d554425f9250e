package podctl

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	"github.com/podstream/podstream/internal/recording"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestPatience(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		0:                      0,
		10 * time.Second:       30 * time.Second,
		100 * time.Millisecond: 3 * time.Second, // podconfigd doesn't send more often than each second
	} {
		if got := newTool(Config{}).patience(heartbeatOptions{interval: interval}); got != want {
			t.Errorf("with an interval of %v podconfigd may be silent for %v; want %v", interval, got, want)
		}
	}
}

// watch and record request a heartbeat each ten seconds, or at the given interval.
func TestHeartbeatInterval(t *testing.T) {
	for flag, want := range map[string]time.Duration{
		"": 10 * time.Second, "--heartbeat-interval=1m": time.Minute, "--heartbeat-interval=0": 0,
	} {
		for _, command := range []string{"watch", "record -"} {
			n := newNode(t)
			requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
			n.podconfigd(&fakePodconfigd{requests: requests})
			n.start(strings.Fields(command + " " + flag)...)
			if got := (<-requests).GetHeartbeatInterval().AsDuration(); got != want {
				t.Errorf("%s %s asks for heartbeats each %v; want %v", command, flag, got, want)
			}
		}
	}
}

// After a podconfigd's silence watch connects again.
func TestWatchReconnectsAfterSilence(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.silence = 2 * time.Second
	n.podconfigd(&fakePodconfigd{scripts: [][]*message{{syncedAt(4)}, {op(5, opAdd, podctltest.Ref("file", "default", "web"))}}})
	interrupt := n.start("watch")
	n.stdout.await(t, "ADD")
	if want := "podctl: podconfigd at unix://" + n.socket("podconfigd") +
		": no message for 2s; reconnecting to resume after revision 4\n"; !strings.HasPrefix(n.stderr.String(), want) {
		t.Errorf("stderr:\n%s\nwant it to begin with:\n%s", n.stderr, want)
	}
	if code := interrupt(); code != exitOK {
		t.Errorf("exit code %d after Ctrl-C", code)
	}
}

// A podconfigd that has never sent anything isn't tried again.
func TestWatchSilentFromTheStart(t *testing.T) {
	n := newNode(t)
	n.silence = 50 * time.Millisecond
	n.podconfigd(&fakePodconfigd{})
	want := "podctl: podconfigd at unix://" + n.socket("podconfigd") + ": no message for 50ms\n"
	if code := n.run(t.Context(), "watch"); code != exitFailed || n.stderr.String() != want {
		t.Errorf("exit code %d, stderr %q; want %q", code, n.stderr, want)
	}
}

// The messages before the silence are a recording.
func TestRecordSilence(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.silence = 2 * time.Second
	n.podconfigd(&fakePodconfigd{scripts: [][]*message{saidAll(t)}})
	path := filepath.Join(n.dir, "r.jsonl")
	code := n.run(t.Context(), "record", path)
	want := " bytes, to " + path + "\npodctl: podconfigd at unix://" + n.socket("podconfigd") + ": no message for 2s\n"
	if code != exitFailed || !strings.HasSuffix(n.stderr.String(), want) {
		t.Errorf("exit code %d, stderr %q; want it to end with %q", code, n.stderr, want)
	}
	if s, err := recording.Summarize(path); err != nil || s.Messages != 3 {
		t.Errorf("the recording holds %+v, error %v; want 3 messages", s, err)
	}
}
