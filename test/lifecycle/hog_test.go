package lifecycle

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podstream/podstream/test/devnode"
)

// hogsEnv is set to "full" for TestHogs at its full size: a million files in each of two pods, and trees deeper than
// podexecd counts. It takes minutes.
const hogsEnv = "PODSTREAM_HOGS"

// hogs are pods that exceed their limit of the disk, each in another way that is hard to detect. CROWD and DEPTH are
// numbers.
var hogs = map[string]string{
	"deep": `
volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]
containers: [{name: main, args: [seq, dig, /v, d, DEPTH, "20", ;, sleep], volumeMounts: [{name: v, mountPath: /v}]}]`,
	"beyond PATH_MAX": `
volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]
containers: [{name: main, args: [seq, dig, /v, LONG, "30", "20", ;, sleep], volumeMounts: [{name: v, mountPath: /v}]}]`,
	"beside many files": `
volumes: [{name: a, emptyDir: {}}, {name: b, emptyDir: {sizeLimit: 1Mi}}]
containers:
- {name: main, args: [seq, crowd, /a, CROWD, ;, grow, /b/big, "20", ;, sleep], volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /b}]}`,
	"many files": `
volumes: [{name: v, emptyDir: {}}]
containers:
- name: main
  args: [seq, crowd, /v, CROWD, ;, sleep]
  resources: {limits: {ephemeral-storage: 256Ki}}
  volumeMounts: [{name: v, mountPath: /v}]`,
	"hosts":   `containers: [{name: main, args: [seq, grow, /etc/hosts, "20", ;, sleep], resources: {limits: {ephemeral-storage: 2Mi}}}]`,
	"message": `containers: [{name: main, args: [seq, grow, /dev/termination-log, "20", ;, sleep], resources: {limits: {ephemeral-storage: 2Mi}}}]`,
}

// unlimited is a pod without a limit for its files. Measuring its usage takes long.
const unlimited = `
volumes: [{name: v, emptyDir: {}}]
containers: [{name: main, args: [seq, crowd, /v, CROWD, ;, sleep], volumeMounts: [{name: v, mountPath: /v}]}]`

const neighbour = `
volumes: [{name: v, emptyDir: {sizeLimit: 100Mi}}]
containers:
- {name: main, args: [seq, grow, /v/file, "1", ;, print, hello], resources: {limits: {ephemeral-storage: 200Mi}}, volumeMounts: [{name: v, mountPath: /v}]}`

// The limits for podexecd under attack. The maximum age of statistics is the interval of the Summary API and the time
// that a request waits, with a tolerance for the machine.
const (
	mostMemory = 100 << 10
	mostAge    = time.Minute + 5*time.Second
	mostWait   = 10 * time.Second
)

// TestHogs: on a node that is attacked by its pods, every hog is evicted, no other pod is harmed, the statistics and
// the log of another pod stay available, and podexecd's memory stays bounded. PODSTREAM_HOGS=full runs it at its full
// size.
func TestHogs(t *testing.T) {
	t.Parallel()
	files, depth, least, most := "20000", "1000", time.Duration(0), 3*patience
	if os.Getenv(hogsEnv) == "full" {
		files, depth, least, most = "1000000", "20000", 5*time.Minute, 20*time.Minute
	}
	sizes := strings.NewReplacer("CROWD", `"`+files+`"`, "DEPTH", `"`+depth+`"`, "LONG", strings.Repeat("x", 250))
	n := newNodeAPI(t, devnode.Containerd2)
	attack := &attack{nodeAPI: n, good: n.run(t, neighbour), large: n.run(t, sizes.Replace(unlimited)), hogs: map[string]*pod{}}
	before, beforeLarge := attack.good.awaitReady(), attack.large.awaitReady()
	attack.plant(t)
	attack.lastStats = time.Now()
	for name, spec := range hogs {
		attack.hogs[name] = n.run(t, sizes.Replace(spec))
	}
	for attack.began = time.Now(); len(attack.hogs) > 0 || time.Since(attack.began) < least; pauseFor(t, time.Second) {
		attack.observe(t)
		if time.Since(attack.began) > most {
			t.Fatalf("after %v these aren't evicted: %v", most, slices.Collect(maps.Keys(attack.hogs)))
		}
	}
	peak := peakMemory(t, n.Podexecd.Pid())
	t.Logf("in %v: %d requests; maxima: age of the neighbour's statistics %v, time of an answer %v, podexecd's memory %d MiB",
		time.Since(attack.began).Round(time.Second), attack.requests, attack.oldest.Round(time.Second), attack.longest.Round(time.Millisecond), peak>>10)
	if peak > mostMemory {
		t.Errorf("podexecd used %d KiB; want at most %d", peak, mostMemory)
	}
	wantUnchanged(attack.good, &before, "main")
	wantUnchanged(attack.large, &beforeLarge, "main")
}

// attack is a node under attack.
type attack struct {
	*nodeAPI
	began time.Time
	// good and large must not be evicted. hogs are the pods that aren't evicted yet.
	good, large *pod
	hogs        map[string]*pod
	// planted are the pods whose logs were replaced.
	planted  map[string]*pod
	requests int
	// lastStats is when the last statistics of the neighbour were measured.
	lastStats time.Time
	// oldest is the maximum age of the neighbour's statistics, and longest the maximum time of an answer.
	oldest, longest time.Duration
}

// plant replaces logs with a FIFO and a link, as pods with a writable hostPath can do.
func (a *attack) plant(t *testing.T) {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "shadow")
	check(t, os.WriteFile(secret, []byte("root:SECRET\n"), 0o600))
	a.planted = map[string]*pod{}
	for name, put := range map[string]func(path string) error{
		"FIFO": func(path string) error { return unix.Mkfifo(path, 0o644) },
		"link": func(path string) error { return os.Symlink(secret, path) },
	} {
		p := a.run(t, `containers: [{name: main, args: [print, hello]}]`)
		p.awaitReady()
		logs, err := filepath.Glob(a.Path("log", "pods", "default_"+p.name+"-*", "main", "0.log"))
		if err != nil || len(logs) != 1 {
			t.Fatalf("the logs of %s are %q, %v", p.name, logs, err)
		}
		check(t, errors.Join(os.Remove(logs[0]), put(logs[0])))
		a.planted[name] = p
	}
}

// observe requests the statistics and logs, and removes the hogs that are evicted.
func (a *attack) observe(t *testing.T) {
	t.Helper()
	a.observeStats(t)
	if status, text := a.request(a.of("containerLogs", a.good, "main")); status != http.StatusOK || text != "hello\n" {
		t.Errorf("the neighbour's log: %d %q", status, text)
	}
	for name, p := range a.planted {
		if status, text := a.request(a.of("containerLogs", p, "main")); status == http.StatusOK || strings.Contains(text, "SECRET") {
			t.Errorf("a log replaced with a %s: %d %q", name, status, text)
		}
	}
	for name, p := range a.hogs {
		all := p.states()
		i := slices.IndexFunc(all, func(s state) bool { return s.Phase == v1.PodFailed && s.Reason == "Evicted" })
		if i >= 0 {
			t.Logf("%s: evicted after %v: %s", name, time.Since(a.began).Round(time.Second), all[i].Message)
			delete(a.hogs, name)
			p.remove()
		}
	}
}

// observeStats requests the statistics. They may be missing while the runtime doesn't answer, or answers late, as on a busy
// machine: then the last ones count, and become older.
func (a *attack) observeStats(t *testing.T) {
	t.Helper()
	status, text := a.request("/stats/summary")
	age := time.Since(a.lastStats)
	late := strings.Contains(text, "DeadlineExceeded") || strings.Contains(text, "is still being read")
	if status != http.StatusInternalServerError || !late || age > mostAge {
		var all statsapi.Summary
		if err := json.Unmarshal([]byte(text), &all); status != http.StatusOK || err != nil {
			t.Fatalf("the summary, %v after the last: %d %q", age, status, text)
		}
		age = a.age(t, &all)
		a.lastStats = time.Now().Add(-age)
	}
	a.oldest = max(a.oldest, age)
}

// age returns the age of the neighbour's statistics.
func (a *attack) age(t *testing.T, all *statsapi.Summary) time.Duration {
	t.Helper()
	for _, p := range all.Pods {
		if p.PodRef.Name != a.good.name+"-"+a.Name {
			continue
		}
		for _, v := range p.VolumeStats {
			if v.Name == "v" && *v.UsedBytes >= 1<<20 {
				age := time.Since(v.Time.Time)
				if age > mostAge {
					t.Errorf("the neighbour's statistics are %v old", age)
				}
				return age
			}
		}
	}
	t.Errorf("the neighbour has no statistics: %+v", all.Pods)
	return 0
}

// request requests a path, and fails the test if the answer takes too long.
func (a *attack) request(path string) (int, string) {
	began := time.Now()
	status, text := a.get(a.url(path))
	took := time.Since(began)
	a.requests++
	a.longest = max(a.longest, took)
	if took > mostWait {
		a.t.Errorf("%s took %v", path, took)
	}
	return status, text
}

// peakMemory returns the process's maximum memory, in KiB.
func peakMemory(t *testing.T, pid int) (kib int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	check(t, err)
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "VmHWM: %d kB", &kib)
	}
	return kib
}

func pauseFor(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}
