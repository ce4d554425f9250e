package systemd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// runsAs returns the user of a unit's main process, by number.
func runsAs(t *testing.T, unit string) string {
	t.Helper()
	return must(t, "stat", "-c", "%u", "/proc/"+startOf(t, unit).pid)
}

// wantFiles checks that podconfigd's files are a user's, and that its store is whole.
func wantFiles(t *testing.T, when, uid string) {
	t.Helper()
	if got := runsAs(t, podconfigd); got != uid {
		t.Errorf("%s podconfigd runs as user %s; want %s", when, got, uid)
	}
	const store = stores + "/podconfigd"
	if other := must(t, "find", store, "/run/podstream/podconfigd.sock", "/run/podstream/podconfigd.sock.lock", "!", "-type", "l", "!", "-uid", uid); other != "" {
		t.Errorf("%s these files aren't user %s's:\n%s", when, uid, other)
	}
	if aside, err := filepath.Glob(store + "/*damaged*"); err != nil || len(aside) > 0 {
		t.Errorf("%s podconfigd put aside %q, %v", when, aside, err)
	}
	if info, err := os.Stat("/run/podstream/podexecd.sock.lock"); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode() != 0o600 {
		t.Errorf("%s podexecd's lock is %v, %v; want root's with 0600", when, info, err)
	}
	must(t, "podctl", "sources")
}

// changeUser downgrades to a version whose podconfigd has another user, and upgrades again: the store goes on each time, and a
// link in it gives nothing away.
func changeUser(t *testing.T, pod packaged, later string) {
	const secret, link = "/var/tmp/of-root", stores + "/podconfigd/link"
	if err := os.WriteFile(secret, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, link); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = os.Remove(link), os.Remove(secret) })
	for _, step := range []struct{ name, file, uid string }{
		{"with the former user", deb(t, "former", "podstream"), "65532"},
		{"after the upgrade from it", later, userID(t)},
	} {
		was := starts(t)
		apt(t, "install", step.file)
		wantStarts(t, step.name, was, true)
		awaitStatus(t, podexecd, "running; pods: ")
		wantFiles(t, step.name, step.uid)
		pod.wantSame(t, step.name)
		if info, err := os.Stat(secret); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 {
			t.Errorf("%s the target of a link is %v, %v; want root's", step.name, info, err)
		}
	}
}

// rpmUpdate calls the scripts of an rpm package in the order of an update.
func rpmUpdate(t *testing.T, name string) {
	t.Helper()
	for _, script := range [][2]string{{"post", "2"}, {"preun", "1"}, {"postun", "1"}} {
		must(t, "sh", "-e", filepath.Join(packages, "scripts", name, "rpm", script[0]), script[1])
	}
}

// besideStopped: with podstream-kubelet installed, an update restarts the agent that runs, and starts no other one, whether
// kubelet.service is masked, disabled, stopped or active.
func besideStopped(t *testing.T, pod packaged, earlier, later string) {
	updates := []struct {
		name string
		do   func()
	}{
		{"a downgrade", func() { apt(t, "install", earlier) }},
		{"an upgrade", func() { apt(t, "install", later) }},
		{"an update by rpm", func() { rpmUpdate(t, "podstream"); rpmUpdate(t, "podstream-kubelet") }},
	}
	goOn := func(state string) {
		t.Helper()
		for _, update := range updates {
			when := "with " + state + " kubelet.service, after " + update.name
			was := starts(t)
			update.do()
			wantStarts(t, when, was, true)
			awaitStatus(t, podexecd, "running; pods: ")
			wantStopped(t, when, kubelet)
			if got, _ := run("systemctl", "is-enabled", kubelet); !strings.HasPrefix(got, state) {
				t.Errorf("%s it is %s", when, got)
			}
			pod.wantSame(t, when)
		}
	}
	was := starts(t)
	must(t, "systemctl", "mask", kubelet)
	apt(t, "install", deb(t, "new", "podstream-kubelet"))
	wantStarts(t, "after the installation with a masked unit", was, false)
	goOn("masked")
	must(t, append([]string{"systemctl", "stop"}, packageUnits...)...)
	must(t, append([]string{"systemctl", "start"}, packageUnits...)...)
	awaitActive(t, podconfigd, podexecd)
	if got := show(t, "podexecd.socket", "ActiveState"); got != "active" {
		t.Errorf("with a masked kubelet.service podexecd.socket is %s", got)
	}
	must(t, "systemctl", "unmask", kubelet)
	must(t, "systemctl", "disable", kubelet)
	goOn("disabled")
	must(t, "systemctl", "enable", kubelet)
	goOn("enabled")

	// Now kubelet.service is the agent.
	must(t, append([]string{"systemctl", "stop"}, packageUnits...)...)
	if err := os.MkdirAll(kubeletManifests, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/etc/default/kubelet", []byte("KUBELET_EXTRA_ARGS=--pod-manifest-path="+kubeletManifests+" --fail-swap-on=false\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	must(t, "systemctl", "start", kubelet)
	daemons := awaitKubelet(t, nil)
	for _, update := range updates {
		update.do()
		daemons = awaitKubelet(t, daemons)
		wantStopped(t, "with kubelet.service, after "+update.name, packageUnits...)
	}
	if own, node := must(t, "readlink", "/proc/"+daemons["podexecd"]+"/ns/mnt"), must(t, "readlink", "/proc/1/ns/mnt"); own != node {
		t.Errorf("podexecd has the mount namespace %s; want the node's, %s", own, node)
	}
	_, _ = run(append([]string{"systemctl", "start"}, packageUnits...)...)
	wantStopped(t, "beside kubelet.service", packageUnits...)
	must(t, "systemctl", "stop", kubelet)
	// The sockets stay out: kubelet.service is enabled.
	must(t, "systemctl", "start", podconfigd, podexecd)
	awaitActive(t, podconfigd, podexecd)
	must(t, "systemctl", "disable", kubelet)
	was = starts(t)
	apt(t, "purge", "podstream-kubelet")
	wantStarts(t, "after the removal of podstream-kubelet", was, false)
	// A socket starts only before its service.
	must(t, append([]string{"systemctl", "stop"}, packageUnits...)...)
	must(t, append([]string{"systemctl", "start"}, packageUnits...)...)
	awaitActive(t, podconfigd, podexecd)
	for _, path := range []string{"/etc/default/kubelet", kubeletManifests, "/var/lib/kubelet"} {
		if err := os.RemoveAll(path); err != nil {
			t.Error(err)
		}
	}
	pod.wantSame(t, "after all that")
}
