package launcher

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/podstream/podstream/internal/roottest"
)

func notify(c chan<- os.Signal) { signal.Notify(c, unix.SIGTERM, unix.SIGINT, unix.SIGHUP) }

// source is a source of pods, without which no daemon starts.
const source = "--pod-manifest-path=/m"

// TestRunBoth: both daemons run until the launcher's end, each one that ends is started again alone, systemd is informed, and
// SIGTERM ends both.
func TestRunBoth(t *testing.T) {
	roottest.Need(t, "it starts podconfigd as another user")
	l := start(t, source, "--max-pods=50")
	first := l.started("podconfigd", "podexecd")
	for name, want := range map[string]string{
		"podconfigd": fmt.Sprintf(`["--root-dir=%[1]s/kubelet/podconfigd" "--pod-manifest-path=/m" "--listen=unix://%[1]s/run/podconfigd.sock"]`, l.dir),
		"podexecd": fmt.Sprintf(`["--root-dir=%[1]s/kubelet" "--kubelet-dir=%[1]s/kubelet" "--adopt-kubelet-pods=true" "--cert-dir=/var/lib/kubelet/pki" "--max-pods=50" "--healthz-port=10248" `+
			`"--listen=unix://%[1]s/run/podexecd.sock" "--podconfig-endpoint=unix://%[1]s/run/podconfigd.sock"]`, l.dir),
	} {
		if !strings.HasPrefix(first[name], "daemon="+name+" started ") || !strings.HasSuffix(first[name], fmt.Sprintf(` notify="%s/run/notify/%s" args=%s`, l.dir, noticesOf[name], want)) {
			t.Errorf("%s starts with %s; want the arguments %s", name, first[name], want)
		}
	}
	// Not earlier than both have reported it.
	state := fmt.Sprintf("podconfigd: up as %d; podexecd: up as %d", pid(t, first["podconfigd"]), pid(t, first["podexecd"]))
	if got := l.notified(""); got != "READY=1\nSTATUS="+state {
		t.Errorf("systemd receives %q; want that both are %s", got, state)
	}
	_, user, _ := reduced()
	for name, want := range map[string][]string{
		"podconfigd": {strings.ReplaceAll("Uid:\tID\tID\tID\tID\n", "ID", fmt.Sprint(user.uid)), strings.ReplaceAll("Gid:\tID\tID\tID\tID\n", "ID", fmt.Sprint(user.gid)), "Groups:\t \n", "CapEff:\t0000000000000004\n", "CapInh:\t0000000000000004\n", "NoNewPrivs:\t1\n"},
		"podexecd":   {"Uid:\t0\t0\t0\t0\n", "NoNewPrivs:\t0\n", "CapInh:\t0000000000000000\n"},
	} {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid(t, first[name])))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(string(status), line) {
				t.Errorf("%s lacks %q:\n%s", name, line, status)
			}
		}
	}
	if uid, mode := owner(t, l.dir+"/run/"+noticesName); uid != 0 || mode.Perm() != 0o755 {
		t.Errorf("the directory of the daemons' messages is of user %d, with mode %v", uid, mode)
	}
	if err := unix.Kill(pid(t, first["podexecd"]), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.await("the daemon ended, and is started again")
	second := l.started("podexecd")
	if pid(t, second["podexecd"]) == pid(t, first["podexecd"]) {
		t.Error("podexecd has the same process")
	}
	if err := unix.Kill(pid(t, first["podconfigd"]), 0); err != nil {
		t.Errorf("podconfigd ended with podexecd: %v", err)
	}
	l.stop()
	var rest strings.Builder
	for l.lines.Scan() {
		rest.WriteString(l.lines.Text() + "\n")
	}
	for _, name := range []string{"podconfigd", "podexecd"} {
		for _, want := range []string{name + " gets terminated\n", "child=" + name + ` result="exit code 0"`} {
			if !strings.Contains(rest.String(), want) {
				t.Errorf("the end lacks %q:\n%s", want, &rest)
			}
		}
	}
	// podexecd ends first.
	if before, _, _ := strings.Cut(rest.String(), "podconfigd gets terminated"); !strings.Contains(before, "child=podexecd result=") {
		t.Errorf("podconfigd ends before podexecd:\n%s", &rest)
	}
	l.ends(0)
	if left, err := filepath.Glob(l.dir + "/run/notify/*"); err != nil || len(left) > 0 {
		t.Errorf("the sockets %q are left, %v", left, err)
	}
}

// TestHangup: SIGHUP has podconfigd read its configuration again. podexecd, which would end by it, doesn't get it.
func TestHangup(t *testing.T) {
	l := start(t, source)
	l.started("podconfigd", "podexecd")
	if err := unix.Kill(os.Getpid(), unix.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if got := l.await(" gets "); !strings.Contains(got, "podconfigd gets hangup") {
		t.Error(got)
	}
	l.stop()
	l.ends(0)
}

// TestNothingStarts: a mistake in flags or files ends the launcher with the kubelet's exit code, before a daemon starts.
func TestNothingStarts(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"
	link, pipe := filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(link, "kubelet"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc", filepath.Join(link, "kubelet/podconfigd")); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":        {[]string{source, "--no-such-flag"}, "failed to parse kubelet flag: unknown flag: --no-such-flag"},
		"a bad number":           {[]string{source, "--max-pods=many"}, "--max-pods"},
		"a bad time of a source": {[]string{source, "--file-check-frequency=x"}, "--file-check-frequency"},
		"an argument":            {[]string{source, "run"}, `unknown command "run"`},
		"an ambiguous flag":      {[]string{source, "--listen=unix:///x"}, "PODCONFIGD_FLAGS or PODEXECD_FLAGS"},
		"no source":              {nil, "there is no source of pods"},
		"a bad name":             {[]string{source, "--hostname-override=a_b"}, "--hostname-override"},
		"a missing file":         {[]string{"--config=" + dir + "/none"}, "--config: "},
		"a bad field":            {[]string{"--config=" + file("field", head+"maxPods: many\nstaticPodPath: /m\n")}, "maxPods"},
		"no YAML":                {[]string{"--config=" + file("yaml", "a: [")}, "this isn't valid YAML"},
		"a bad value":            {[]string{"--config=" + file("value", head+"maxPods: -1\nstaticPodPath: /m\n")}, "maxPods"},
		"a pipe":                 {[]string{"--config=" + pipe}, pipe + " isn't a regular file"},
		"a link as a directory":  {[]string{source, "--root-dir=" + filepath.Join(link, "kubelet")}, "open directory " + link + "/kubelet/podconfigd"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			l := &Launcher{Programs: programs(t), Sockets: filepath.Join(t.TempDir(), "run"), Environ: []string{asDaemon + "=daemon"}, Stdout: &out, Stderr: &out}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			code := l.Run(ctx, append([]string{"--root-dir=" + t.TempDir()}, tc.args...))
			if code != 1 || !strings.Contains(out.String(), tc.want) || strings.Contains(out.String(), "started") {
				t.Errorf("exit code %d; want 1 and %q:\n%s", code, tc.want, &out)
			}
			if lines := strings.Split(out.String(), "\n"); len(slices.Compact(lines)) != strings.Count(out.String(), "\n")+1 {
				t.Errorf("a line is printed twice:\n%s", &out)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	// The defaults are the launcher's.
	for _, want := range []string{
		"--cert-dir directory ", `podexecd's certificates (default "/var/lib/kubelet/pki")`, "podexecd's health; 0: off (default 10248)",
		`beneath it (default "/var/lib/kubelet")`, "PODSTREAM_RUN_DIR",
	} {
		if !strings.Contains(Usage(), want) {
			t.Errorf("--help lacks %q", want)
		}
	}
	for arg, want := range map[string]string{
		"--version": "Kubernetes v1.37.2", "--version=raw": `version.Info{Major:"1", Minor:"37"`, "--help": "--container-runtime-endpoint socket",
	} {
		var out, errs bytes.Buffer
		if code := (&Launcher{Stdout: &out, Stderr: &errs}).Run(t.Context(), []string{arg}); code != 0 || errs.Len() > 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d, %q; want %q:\n%s", arg, code, &errs, want, &out)
		}
	}
	var out, errs bytes.Buffer
	(&Launcher{Stdout: &out, Stderr: &errs}).Run(t.Context(), []string{"--version"})
	// As kubeadm reads it, which then compares the version with its own.
	found := regexp.MustCompile(`^\s*Kubernetes v([-\w.+]*)\s*$`).FindStringSubmatch(out.String())
	if len(found) != 2 {
		t.Fatalf("--version prints %q", &out)
	}
	if v, err := version.ParseSemantic(found[1]); err != nil || v.Major() != 1 || v.Minor() != 37 {
		t.Errorf("--version is of %v, %v", v, err)
	}
	if code := (&Launcher{Stdout: &errs, Stderr: &errs}).Run(t.Context(), []string{"--version=v1.20.0"}); code != 1 {
		t.Errorf("another version: exit code %d:\n%s", code, &errs)
	}
}

// TestKillLeavesNothing: kill -9 of the launcher ends both daemons, also one that ignores SIGTERM.
func TestKillLeavesNothing(t *testing.T) {
	dir := programs(t)
	cmd := exec.Command(os.Args[0], source, "--hostname-override=stubborn", "--root-dir="+filepath.Join(dir, "kubelet"))
	cmd.Env = append(os.Environ(), asDaemon+"=launch", "PROGRAMS="+dir, "SOCKETS="+filepath.Join(dir, "run"))
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	l := &launched{t: t, lines: newScanner(output)}
	for name, line := range l.started("podconfigd", "podexecd") {
		// A descriptor of the process reports its end.
		fd, err := unix.PidfdOpen(pid(t, line), 0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer func() {
			defer func() { _ = unix.Close(fd) }()
			polled := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(polled, 20_000); err != nil || n != 1 {
				t.Errorf("%s outlives the launcher: %d, %v", name, n, err)
			}
		}()
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}
