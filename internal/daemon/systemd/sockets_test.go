package systemd

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

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// roleVariable makes the test program a process that takes over sockets.
const roleVariable = "PODSTREAM_SYSTEMD_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		takeOver()
		return
	}
	goleak.VerifyTestMain(m)
}

// takeOver prints the inherited sockets, and accepts one connection at each.
func takeOver() {
	sockets, err := Sockets()
	if err != nil {
		fmt.Println("error:", err)
		return
	}
	for _, s := range sockets {
		fmt.Println(s.Name, s.Path)
		conn, err := s.Accept()
		if err != nil {
			fmt.Println("accept:", err)
			return
		}
		fmt.Fprintln(conn, "from the child")
		_, _ = conn.Close(), s.Close()
	}
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		if value, set := os.LookupEnv(name); set {
			fmt.Println("left in the environment:", name, value)
		}
	}
	again, err := Sockets()
	fmt.Println("end", len(again), err)
}

// child starts a process with the files from descriptor 3 on. pid is its LISTEN_PID; $$ is right.
func child(t *testing.T, pid, names string, files ...*os.File) (output *bufio.Scanner, wait func() error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "LISTEN_PID="+pid+` exec "$0"`, os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"=1", fmt.Sprintf("LISTEN_FDS=%d", len(files)), "LISTEN_FDNAMES="+names)
	cmd.ExtraFiles = files
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return bufio.NewScanner(out), cmd.Wait
}

func listenFile(t *testing.T, path string) *os.File {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = l.Close(), f.Close() })
	return f
}

// A connection made before the process starts is served by it. After its end the socket is still there, and the next
// process serves the next connection.
func TestSockets(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	files := []*os.File{listenFile(t, a), listenFile(t, b)}
	for range 2 {
		var conns []net.Conn
		for _, path := range []string{a, b} {
			conn, err := net.Dial("unix", path)
			if err != nil {
				t.Fatalf("connect before the process starts: %v", err)
			}
			conns = append(conns, conn)
		}
		out, wait := child(t, "$$", "first:", files...)
		var got []string
		for out.Scan() {
			got = append(got, out.Text())
		}
		if err := wait(); err != nil {
			t.Fatal(err)
		}
		want := []string{"first " + a, "LISTEN_FD_4 " + b, "end 0 <nil>"}
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("the process prints %q; want %q", got, want)
		}
		for _, conn := range conns {
			text, err := io.ReadAll(conn)
			if string(text) != "from the child\n" {
				t.Errorf("the queued connection receives %q, %v", text, err)
			}
			_ = conn.Close()
		}
	}
}

func TestSocketsOfOthers(t *testing.T) {
	dir := t.TempDir()
	stream := func(bind bool) *os.File {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err == nil && bind {
			err = unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(dir, "bound")})
		}
		if err != nil {
			t.Fatal(err)
		}
		f := os.NewFile(uintptr(fd), "")
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	regular, err := os.Create(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = regular.Close() }()
	good := listenFile(t, filepath.Join(dir, "good"))
	for _, tc := range []struct {
		name, pid string
		file      *os.File
		want      string
	}{
		{"passed to another process", "1", good, "end 0 <nil>"},
		{"no PID", "", good, "end 0 <nil>"},
		{"bound only", "$$", stream(true), "error: socket x from systemd: it doesn't listen; Accept=no is needed"},
		{"without a path", "$$", stream(false), "error: socket x from systemd: "},
		{"no socket", "$$", regular, "error: socket x from systemd: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out, wait := child(t, tc.pid, "x", tc.file)
			var got []string
			for out.Scan() {
				got = append(got, out.Text())
			}
			if err := wait(); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], tc.want) {
				t.Errorf("the process prints %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}
