package usage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// kubectl logs shows a container's output, all of it or a part, once or as a stream, of this run or the
// previous one.
func TestKubectlLogs(t *testing.T) {
	s := newSpace(t)
	s.applyPod(t, "count", toolsImage, shell(`i=0; while [ $i -lt 100 ]; do i=$((i+1)); echo line $i; done; exec /sample sleep`), "")
	s.applyPod(t, "clock", toolsImage, shell(`i=0; while :; do i=$((i+1)); echo tick $i; /sample sleep 1; done`), "terminationGracePeriodSeconds: 0")
	s.applyPod(t, "crash", toolsImage, shell(`if [ -e /scratch/second ]; then echo the second run; exec /sample sleep; fi
echo the first run; : > /scratch/second; exit 3`)+`, volumeMounts: [{name: work, mountPath: /scratch}]`, `volumes: [{name: work, emptyDir: {}}]`)
	s.applyPod(t, "stuck", "localhost/no-such-image:1", "imagePullPolicy: Never", "")
	s.awaitReady(t, "count")

	var all []string
	for i := range 100 {
		all = append(all, fmt.Sprintf("line %d\n", i+1))
	}
	wantLogs := func(want []string, args ...string) {
		t.Helper()
		if got := s.kubectl(t, append([]string{"logs", "count"}, args...)...); got != strings.Join(want, "") {
			t.Errorf("kubectl logs %v has %q; want %q", args, got, strings.Join(want, ""))
		}
	}
	wantLogs(all)
	wantLogs(all[98:], "--tail=2")
	wantLogs(nil, "--tail=0")
	wantLogs(all, "--since=1h")
	wantLogs([]string{"line 1\nli"}, "--limit-bytes=9")
	wantLogs(all, "--all-containers")
	stamped := strings.Split(s.kubectl(t, "logs", "count", "--timestamps", "--tail=1"), " ")
	at, err := time.Parse(time.RFC3339Nano, stamped[0])
	if err != nil || time.Since(at).Abs() > time.Hour {
		t.Errorf("kubectl logs --timestamps begins with %q: %v", stamped[0], err)
	}
	wantLogs(nil, "--since-time="+at.Add(time.Second).Format(time.RFC3339))

	follow := s.begin(t, "logs", "-f", "clock")
	ticks := strings.Count(follow.expect(t, "tick 8\n"), "tick ")
	recent := strings.Count(s.kubectl(t, "logs", "clock", "--since=3s"), "tick ")
	if ticks < 8 || recent < 1 || recent > 5 {
		t.Errorf("of at least 8 ticks, 3 s have %d", recent)
	}
	s.kubectl(t, "delete", "pod", "clock")
	if err := follow.wait(t); err != nil {
		t.Errorf("kubectl logs -f ends with its pod: %v, %q", err, follow.text())
	}

	s.awaitPod(t, "crash", "runs for the second time", func(pod *corev1.Pod) error {
		return when(isReady(pod) && pod.Status.ContainerStatuses[0].RestartCount == 1)
	})
	for _, run := range []struct {
		want string
		args []string
	}{{"the second run\n", nil}, {"the first run\n", []string{"--previous"}}} {
		if got := s.kubectl(t, append([]string{"logs", "crash"}, run.args...)...); got != run.want {
			t.Errorf("kubectl logs crash %v has %q; want %q", run.args, got, run.want)
		}
	}

	if _, err := s.try(t.Context(), "", "logs", "count", "--previous"); err == nil || !strings.Contains(err.Error(), "previous terminated container") {
		t.Errorf("kubectl logs --previous of a first run: %v", err)
	}
	s.awaitEvent(t, "stuck", "ErrImageNeverPull")
	if _, err := s.try(t.Context(), "", "logs", "stuck"); err == nil || !strings.Contains(err.Error(), "is waiting to start") {
		t.Errorf("kubectl logs of a container that waits: %v", err)
	}
}
