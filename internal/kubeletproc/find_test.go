package kubeletproc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// build builds the program of testdata/waiting.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "waiting")
	cmd := exec.Command("go", "build", "-o", program, "./testdata/waiting")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return program
}

// run starts the program under the name and with the arguments of argv. It ends with the test.
func run(t *testing.T, program, dir string, argv ...string) int {
	t.Helper()
	return runWith(t, program, dir, nil, argv...)
}

// runWith is run for a program that has more files open.
func runWith(t *testing.T, program, dir string, files []*os.File, argv ...string) int {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Args, cmd.Dir, cmd.ExtraFiles = argv, dir, files
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = input.Close()
		_ = cmd.Wait()
	})
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid
}

func TestUsing(t *testing.T) {
	dir, program := t.TempDir(), build(t)
	socket, other := filepath.Join(dir, "runtime.sock"), filepath.Join(dir, "other.sock")
	for _, path := range []string{socket, other} {
		listener, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
	}
	config := "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix://" + socket + "\n"
	if err := os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.sock")
	if err := os.Symlink(socket, link); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		argv []string
		want bool
	}{
		"by its flag":             {[]string{"/usr/bin/kubelet", "--v=2", "--container-runtime-endpoint=unix://" + socket}, true},
		"by a bare path":          {[]string{"kubelet", "--container-runtime-endpoint", socket}, true},
		"by a link":               {[]string{"kubelet", "--container-runtime-endpoint", link}, true},
		"by its configuration":    {[]string{"kubelet", "--config=" + filepath.Join(dir, "config.yaml")}, true},
		"by a relative path":      {[]string{"kubelet", "--config=config.yaml"}, true},
		"of another runtime":      {[]string{"kubelet", "--container-runtime-endpoint=unix://" + other}, false},
		"without a configuration": {[]string{"kubelet", "--config=/absent"}, false},
		"of the default runtime":  {[]string{"kubelet"}, false},
		"by its directory":        {[]string{"kubelet", "--container-runtime-endpoint=" + other, "--root-dir=" + dir}, true},
		"by a relative directory": {[]string{"kubelet", "--container-runtime-endpoint=" + other, "--root-dir=."}, true},
		"of another directory":    {[]string{"kubelet", "--container-runtime-endpoint=" + other, "--root-dir=" + filepath.Dir(dir)}, false},
		"another program":         {[]string{"podexecd", "--container-runtime-endpoint=unix://" + socket}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pid := run(t, program, dir, test.argv...)
			found, err := Search{Socket: socket, Dir: dir}.Find(t.Context())
			switch {
			case err != nil:
				t.Fatal(err)
			case !test.want && found != nil:
				t.Errorf("found %s", found)
			case test.want && (found == nil || found.PID != pid || !strings.Contains(found.String(), "process ")):
				t.Errorf("found %v; want process %d", found, pid)
			}
		})
	}
}

// TestUnit: the unit is read from the process's cgroup, in either version.
func TestUnit(t *testing.T) {
	for text, want := range map[string]string{
		"0::/system.slice/kubelet.service\n": "kubelet.service", "1:name=systemd:/system.slice/kubelet.service\n2:cpu:/\n": "kubelet.service", "0::/\n": "",
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "cgroup"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := (&kubelet{dir: dir}).unit(); got != want {
			t.Errorf("%q has unit %q; want %q", text, got, want)
		}
	}
}

// TestPorts: a kubelet that listens on podexecd's port is found, whichever runtime it uses, and by no other port.
func TestPorts(t *testing.T) {
	dir, program := t.TempDir(), build(t)
	for _, address := range []string{"127.0.0.1:0", "[::]:0"} {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).Port
		file, err := listener.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		pid := runWith(t, program, dir, []*os.File{file}, "kubelet", "--container-runtime-endpoint=unix:///other.sock")
		_, _ = file.Close(), listener.Close()
		found, err := Search{Ports: []int{1, port}}.Find(t.Context())
		if err != nil || found == nil || found.PID != pid || found.Why != fmt.Sprintf("it listens on port %d", port) {
			t.Errorf("%s: found %+v, %v; want process %d", address, found, err, pid)
		}
		if found, err := (Search{Ports: []int{1}}).Find(t.Context()); err != nil || found != nil {
			t.Errorf("%s: by another port: found %+v, %v", address, found, err)
		}
	}
}

// TestLauncher: Podstream's launcher has a kubelet's name and command line, and is none. It would keep its own child from
// starting.
func TestLauncher(t *testing.T) {
	dir, program := t.TempDir(), build(t)
	launcher, socket := filepath.Join(dir, "kubelet"), filepath.Join(dir, "runtime.sock")
	if output, err := exec.Command("go", "build", "-o", launcher, "../../cmd/kubelet").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	// In the place of the daemons are programs that end at once, and that the launcher starts again.
	for _, name := range []string{"podconfigd", "podexecd"} {
		if err := os.Link(program, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	cmd := exec.Command(launcher, "--pod-manifest-path=/m", "--root-dir="+filepath.Join(dir, "root"), "--container-runtime-endpoint=unix://"+socket)
	cmd.Env = append(os.Environ(), "PODSTREAM_RUN_DIR="+filepath.Join(dir, "run"))
	output, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGTERM)
		_, _ = io.Copy(io.Discard, output)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the launcher ends with %v", err)
		}
	})
	for lines := bufio.NewScanner(output); ; {
		if !lines.Scan() {
			t.Fatal("the launcher doesn't start")
		}
		if strings.Contains(lines.Text(), "launcher is up") {
			break
		}
	}
	if found, err := (Search{Socket: socket}).Find(t.Context()); err != nil || found != nil {
		t.Errorf("found %+v, %v; want none", found, err)
	}
	// The same command line of another program counts.
	pid := run(t, program, dir, cmd.Args...)
	if found, err := (Search{Socket: socket}).Find(t.Context()); err != nil || found == nil || found.PID != pid {
		t.Errorf("found %+v, %v; want process %d", found, err, pid)
	}
}

// TestUnitAndNamespace: the process of kubelet.service counts, unless it is in another PID namespace, as a container's,
// or another user's than root.
func TestUnitAndNamespace(t *testing.T) {
	for _, test := range []struct {
		namespace, uid string
		want           bool
	}{{"pid:[1]", "0", true}, {"pid:[2]", "0", false}, {"pid:[1]", "1000", false}} {
		namespace, want := test.namespace, test.want
		proc := t.TempDir()
		for path, text := range map[string]string{
			"7/cmdline": "/usr/bin/kubelet\x00--container-runtime-endpoint=unix:///other.sock\x00", "7/cgroup": "0::/system.slice/kubelet.service\n",
			"7/status": "Name:\tkubelet\nUid:\t" + test.uid + "\t" + test.uid + "\t0\t0\nGid:\t0\t0\t0\t0\n",
		} {
			if err := os.MkdirAll(filepath.Join(proc, filepath.Dir(path)), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(proc, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for path, target := range map[string]string{"self": "pid:[1]", "7": namespace} {
			if err := os.MkdirAll(filepath.Join(proc, path, "ns"), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(target, filepath.Join(proc, path, "ns/pid")); err != nil {
				t.Fatal(err)
			}
		}
		found, err := Search{Proc: proc}.Find(t.Context())
		if err != nil || (found != nil) != want {
			t.Errorf("in the namespace %s: found %+v, %v; want one: %v", namespace, found, err, want)
		}
		if found != nil && (found.Unit != "kubelet.service" || found.Why != "it is the process of kubelet.service") {
			t.Errorf("found %+v", found)
		}
	}
}
