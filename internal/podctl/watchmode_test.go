package podctl

import (
	"strings"
	"testing"

	"github.com/podstream/podstream/internal/podctl/podctltest"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

func TestWatchModeFlag(t *testing.T) {
	for mode, want := range map[string]podconfigv1.NotificationMode{
		"": podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, "incremental": podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL,
		"snapshot-and-updates": podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT_AND_UPDATES,
		"snapshot":             podconfigv1.NotificationMode_NOTIFICATION_MODE_SNAPSHOT,
	} {
		n := newNode(t)
		requests := make(chan *podconfigv1.WatchPodUpdatesRequest, 1)
		n.podconfigd(&fakePodconfigd{requests: requests})
		args := []string{"watch"}
		if mode != "" {
			args = append(args, "--mode="+mode)
		}
		n.start(args...)
		if got := (<-requests).GetMode(); got != want {
			t.Errorf("--mode %q asks for %s, want %s", mode, got, want)
		}
	}
}

// A SET is printed as it came. The final position includes revisions without an op.
func TestWatchHeartbeatMovesTheCursor(t *testing.T) {
	n := newNode(t)
	moving := heartbeatAt(9)
	moving.Cursor = cursorAt(9)
	n.podconfigd(&fakePodconfigd{scripts: [][]*message{{
		op(0, opSet, podctltest.Ref("file", "default", "web")), syncedAt(4), op(5, opSet), moving,
	}}})
	interrupt := n.start("watch", "-o", "json", "--mode=snapshot", "--heartbeats")
	n.stdout.await(t, `"cursor":"one/9/all"`)
	interrupt()
	if got := strings.Count(n.stdout.String(), "POD_OPERATION_SET"); got != 2 {
		t.Errorf("%d SETs, want 2:\n%s", got, n.stdout)
	}
	if got := n.stderr.String(); got != "podctl: to resume from here: podctl watch --resume one/9/all\n" {
		t.Errorf("stderr: %s", got)
	}
}
