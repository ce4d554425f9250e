package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/podstream/podstream/test/csidriver"
	"github.com/podstream/podstream/test/csidriver/calllog"
	"github.com/podstream/podstream/test/csidriver/fault"
)

// asProgram makes the test's binary the program.
const asProgram = "CSIDRIVERD"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// program is a csidriverd.
type program struct {
	t   *testing.T
	dir string
	cmd *exec.Cmd
}

func (p *program) start(args ...string) {
	p.t.Helper()
	args = append([]string{"--dir=" + p.dir, "--control=" + filepath.Join(p.dir, "control.sock"), "--volumes=v"}, args...)
	p.cmd = exec.Command(os.Args[0], args...)
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), asProgram+"=1"), os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); !strings.HasPrefix(line, "serving ") {
		p.t.Fatalf("the program prints %q, %v", line, err)
	}
}

// died waits for the program's end, and checks that SIGKILL was its cause.
func (p *program) died() {
	p.t.Helper()
	err := p.cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		p.t.Errorf("the program has ended with %v; want SIGKILL", err)
	}
}

func (p *program) health() error {
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient("unix:"+filepath.Join(p.dir, "csi.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	defer conn.Close()
	_, err = csipb.NewNodeClient(conn).NodeGetVolumeHealth(ctx, &csipb.NodeGetVolumeHealthRequest{VolumeId: "v"})
	return err
}

// TestProgram: the program dies by faults from its flags and from the control socket, and by kill -9 in the midst of a call; the log says
// what happened, and it goes on after each.
func TestProgram(t *testing.T) {
	dir, err := os.MkdirTemp("", "csid") // t.TempDir is too long for the name of a socket.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &program{t: t, dir: dir}
	p.start(`--faults=[{"method":"NodeGetVolumeHealth","action":"die"}]`)
	if err := p.health(); err == nil {
		t.Error("a call succeeds in whose midst the driver died")
	}
	p.died()

	p.start()
	control := fault.NewClient(filepath.Join(dir, "control.sock"))
	defer control.Close()
	if _, err := control.Add(t.Context(), fault.Fault{Method: "NodeGetVolumeHealth", Action: fault.ActDie}); err != nil {
		t.Fatal(err)
	}
	if err := p.health(); err == nil {
		t.Error("a call succeeds in whose midst the driver died")
	}
	p.died()

	p.start()
	id, err := control.Add(t.Context(), fault.Fault{Method: "NodeGetVolumeHealth", Action: fault.Hold})
	if err != nil {
		t.Fatal(err)
	}
	result := make(chan error, 1)
	go func() { result <- p.health() }()
	if err := control.Await(t.Context(), id, 1); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-result; err == nil {
		t.Error("a call succeeds in whose midst the driver died")
	}
	p.died()

	p.start()
	if err := p.health(); err != nil {
		t.Error(err)
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM the program ends with %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "csi.sock")); !os.IsNotExist(err) {
		t.Errorf("after SIGTERM the socket remains: %v", err)
	}
	log, err := calllog.Read(filepath.Join(dir, "calls.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	calls := log.Calls
	if len(log.Starts) != 4 || len(calls) != 4 || !calls[0].Cut || !calls[1].Cut || !calls[2].Cut || !calls[3].Ended {
		t.Errorf("the log has %d starts and the calls %v", len(log.Starts), calls)
	}
}

// TestFlags: each flag sets its option.
func TestFlags(t *testing.T) {
	got, err := parse([]string{
		"--dir=/d", "--name=n", "--node-id=i", "--other-nodes=j,k", "--topology=zone=a", "--max-volumes=3", "--capabilities=STAGE_UNSTAGE_VOLUME",
		"--attach-required", "--backing=image", "--contexts", "--endpoint=/e", "--log=/l", "--control=/c", "--volumes=a,b=5", "--registration=/r",
		"--registration-name=m", "--registration-versions=1.0.0,2.0.0", "--registration-endpoint=/f",
		`--faults=[{"action":"fail","code":"UNAVAILABLE"}]`,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := csidriver.Options{
		Dir: "/d", Name: "n", NodeID: "i", OtherNodes: []string{"j", "k"}, Topology: map[string]string{"zone": "a"}, MaxVolumes: 3,
		Capabilities: []csidriver.Capability{csidriver.Stage}, AttachRequired: true, Backing: csidriver.Image, Contexts: true, Endpoint: "/e", Log: "/l",
		Control: "/c", Volumes: []string{"a", "b=5"}, Registration: "/r", RegistrationName: "m",
		RegistrationVersions: []string{"1.0.0", "2.0.0"}, RegistrationEndpoint: "/f",
		Faults: []fault.Fault{{Action: fault.Fail, Code: 14}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("parsed %+v; want %+v", got, want)
	}
	for i := range reflect.TypeOf(want).NumField() {
		if f := reflect.TypeOf(want).Field(i); f.Name != "Die" && reflect.ValueOf(got).Field(i).IsZero() {
			t.Errorf("no flag sets %s", f.Name)
		}
	}
	for _, wrong := range [][]string{{"--faults=x"}, {"argument"}, {"--no-such-flag"}} {
		if _, err := parse(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
