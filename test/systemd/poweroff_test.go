package systemd_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ended are the pods of the shutdown, in the order in which they end.
var ended = []string{"own", "slow", "stubborn", "critical"}

// TestBeforeShutdown starts pods that the poweroff after it ends; TestAfterShutdown examines their diaries. Nothing is
// undone: the guest ends after it.
func TestBeforeShutdown(t *testing.T) {
	must(t, "mkdir", "-p", "/var/log/journal")
	must(t, "systemctl", "restart", "systemd-journald")
	if err := os.WriteFile("/etc/podstream/podexecd.env", []byte(graceful(t)+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	must(t, "systemctl", "restart", podexecd)
	awaitActive(t, podexecd)
	awaitLock(t)
	for name, content := range map[string]string{
		// Its own grace period is shorter than the group's, and it ignores SIGTERM.
		"own": diarist("own", 0, 3, "", "ignore-term"),
		// It takes as long as it says.
		"slow": diarist("slow", 0, 60, "", "on-term", "/d/ignored", "x", "6s"),
		// Its hook takes longer than the group, and it ignores SIGTERM.
		"stubborn": diarist("stubborn", 0, 30, "lifecycle: {preStop: {exec: {command: [/sample, diary, /d/hook, sleep, '600']}}},", "ignore-term"),
		"critical": diarist("critical", systemNodeCritical, 60, "", "on-term", "/d/ignored", "x", "4s"),
	} {
		if err := os.WriteFile(filepath.Join(manifests, name+".yaml"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	awaitRunning(t, ended...)
	must(t, "sync")
}

// TestAfterShutdown: each pod got its SIGTERM when its group was due, and had its time. All of them run again.
func TestAfterShutdown(t *testing.T) {
	awaitActive(t, podconfigd, podexecd)
	for _, pod := range ended {
		awaitNotes(t, pod, "start", 2)
	}
	awaitRunning(t, ended...)
	term := map[string]time.Time{}
	for _, pod := range append([]string{"hook"}, ended...) {
		what := "term"
		if pod == "hook" {
			what = "start"
		}
		notes := diary(t, pod)
		if pod != "hook" {
			notes = notes[:len(notes)-1] // of this boot
		}
		n, at := count(notes, what)
		if term[pod] = at; n != 1 {
			t.Errorf("%s: %v; want one %s", pod, notes, what)
		}
	}
	// The hook of the first group runs until the group's time is over: then the next group is due, and the first pod has
	// its SIGTERM.
	const slack = 8 * time.Second // The guest is slow.
	begun := term["slow"]
	for pod, want := range map[string]time.Duration{"own": 0, "slow": 0, "hook": 0, "stubborn": ending, "critical": ending} {
		if got := term[pod].Sub(begun); got < want-2*time.Second || got > want+slack {
			t.Errorf("%s: after %v; want about %v", pod, got, want)
		}
	}
	for _, pod := range []string{"slow", "critical"} {
		if n, at := count(diary(t, pod), "end"); n != 1 || at.Sub(term[pod]) < 4*time.Second {
			t.Errorf("%s: %v; want that it had the time to end", pod, diary(t, pod))
		}
	}
	log := must(t, "journalctl", "--no-pager", "-b", "-1", "-u", "podexecd", "-o", "cat")
	// Earlier tests have cancelled other shutdowns in that boot.
	log = log[max(0, strings.LastIndex(log, "the machine shuts down; no pod is admitted")):]
	for _, text := range []string{
		// The stubborn pod is killed when the group's time is over, though its own grace period is longer.
		"the time for pods of this priority is over before all have ended; the shutdown goes on",
		"all pods have ended; the machine goes down",
	} {
		if strings.Count(log, text) != 1 {
			t.Errorf("podexecd's log of the last boot doesn't have %q once:\n%s", text, log)
		}
	}
	state, err := os.ReadFile(filepath.Join(stores, "podexecd/graceful_node_shutdown_state"))
	if err != nil || strings.Contains(string(state), "0001-01-01") {
		t.Errorf("the times of the shutdown are %s, %v", state, err)
	}
	for _, pod := range ended {
		if pod != immediate {
			remove(t, pod)
		}
	}
	t.Logf("after the first SIGTERM: %v; podexecd's times: %s", times(term, begun), state)
}

// immediate is the pod of TestBeforePoweroff. It has run since TestBeforeShutdown.
const immediate = "slow"

// TestBeforePoweroff: without the settings nothing of podexecd's delays a shutdown. TestAfterPoweroff examines the one
// after it. It runs after TestBeforeBoot, which has written podexecd's flags.
func TestBeforePoweroff(t *testing.T) {
	must(t, "systemctl", "restart", podexecd)
	awaitActive(t, podexecd)
	if held := locks(t); len(held) > 0 {
		t.Errorf("without the settings it holds %q", held)
	}
	awaitRunning(t, immediate)
	must(t, "cp", filepath.Join(diaries, immediate), filepath.Join(diaries, immediate+".before"))
	must(t, "sync")
}

// TestAfterPoweroff: the pod was ended by the init system, at once.
func TestAfterPoweroff(t *testing.T) {
	notes := diary(t, immediate)[len(diary(t, immediate+".before")):]
	n, at := count(notes, "term")
	if n != 1 {
		t.Fatalf("%s: %v; want one term", immediate, notes)
	}
	began, err := strconv.ParseFloat(strings.Fields(must(t, "journalctl", "--no-pager", "-b", "-1", "-u", "systemd-logind", "-o", "short-unix",
		"--grep", "The system will power off now"))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	if after := at.Sub(time.UnixMicro(int64(began * 1e6))); after < 0 || after > 10*time.Second {
		t.Errorf("it got its SIGTERM %v after the shutdown began; want it at once", after)
	}
	awaitNotes(t, immediate, "start", 3)
}

func times(at map[string]time.Time, begun time.Time) map[string]time.Duration {
	out := map[string]time.Duration{}
	for what, t := range at {
		out[what] = t.Sub(begun).Round(100 * time.Millisecond)
	}
	return out
}
