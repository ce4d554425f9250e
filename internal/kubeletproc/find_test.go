package kubeletproc

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
	cmd := exec.Command(program)
	cmd.Args, cmd.Dir = argv, dir
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
		"another program":         {[]string{"podexecd", "--container-runtime-endpoint=unix://" + socket}, false},
	} {
		t.Run(name, func(t *testing.T) {
			pid := run(t, program, dir, test.argv...)
			found, err := Using(t.Context(), "", socket)
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
