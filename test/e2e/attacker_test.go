package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// attackEnv is the environment variable with an attack as JSON. The attack runs in a separate process, at the
// lowest priority, so that its effect on podconfigd can be distinguished from its effect on the machine.
const attackEnv = "PODSTREAM_E2E_ATTACK"

// attack is the work of the process until its standard input ends.
type attack struct {
	Socket string
	// Streams is the number of an inspector's streams. Every second one stops reading at once; the others read
	// everything and start again.
	Streams int
	// Callers is the number of callers that list pods with filters at their limits, and of callers that diff
	// manifests, each without a pause.
	Callers int
}

// damage is the result of an attack.
type damage struct {
	// Served and Refused count streams. Lists and Diffs count calls that were answered, and RefusedDiffs calls
	// that were not.
	Served, Refused, Lists, Diffs, RefusedDiffs int64
}

// begun is a running attack.
type begun struct {
	cmd *exec.Cmd
	in  interface{ Close() error }
	out *json.Decoder
}

// begin starts the attack and returns when all its streams are served or refused.
func (a attack) begin(t *testing.T) (*begun, damage) {
	t.Helper()
	text, err := json.Marshal(a)
	check(t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), attackEnv+"="+string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	b := &begun{cmd: cmd, in: in, out: json.NewDecoder(out)}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	return b, b.damage(t)
}

func (b *begun) damage(t *testing.T) (d damage) {
	t.Helper()
	if err := b.out.Decode(&d); err != nil {
		t.Fatalf("the attacker: %v; want its result", err)
	}
	return d
}

// end ends the attack, and returns its result from the start.
func (b *begun) end(t *testing.T) damage {
	t.Helper()
	check(t, b.in.Close())
	return b.damage(t)
}

// attackMain is the main function of the process.
func attackMain(text string) int {
	var a attack
	err := json.Unmarshal([]byte(text), &a)
	if err == nil {
		err = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19)
	}
	if err == nil {
		err = a.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "attacker:", err)
		return 1
	}
	return 0
}

// assailant is the state of a running attack.
type assailant struct {
	attack
	inspectors []podconfigv1.PodConfigServiceClient
	consumer   podconfigv1.PodConfigServiceClient

	served, refused, lists, diffs, refusedDiffs atomic.Int64
}

func (a attack) run() error {
	s := &assailant{attack: a}
	for range max(a.Streams/200, 1) {
		api, err := s.dial(inspectorUID)
		if err != nil {
			return err
		}
		s.inspectors = append(s.inspectors, api)
	}
	var err error
	if s.consumer, err = s.dial(consumerUID); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var decided sync.WaitGroup
	for i := range a.Streams {
		decided.Add(1)
		go s.stream(ctx, i, sync.OnceFunc(decided.Done))
	}
	decided.Wait()
	for i := range a.Callers {
		go s.list(ctx, i)
		go s.diff(ctx, i)
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(s.damage()); err != nil {
		return err
	}
	// The end of the input ends the attack.
	_, _ = os.Stdin.Read(make([]byte, 1))
	return out.Encode(s.damage())
}

func (s *assailant) damage() damage {
	return damage{s.served.Load(), s.refused.Load(), s.lists.Load(), s.diffs.Load(), s.refusedDiffs.Load()}
}

func (s *assailant) dial(uid int) (podconfigv1.PodConfigServiceClient, error) {
	conn, err := grpc.NewClient("passthrough:///attacked", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithInitialWindowSize(64<<10), grpc.WithContextDialer(func(context.Context, string) (conn net.Conn, err error) {
			become := asUser(uid, func() { conn, err = net.Dial("unix", s.Socket) })
			return conn, errors.Join(become, err)
		}))
	if err != nil {
		return nil, err
	}
	return podconfigv1.NewPodConfigServiceClient(conn), nil
}

// filter returns a filter at one of its bounds, for some of the streams.
func (s *assailant) filter(i int) *podconfigv1.PodFilter {
	var names []string
	switch i % 10 {
	case 0:
		for n := range 10_000 {
			names = append(names, fmt.Sprintf("%0100d", n))
		}
		return &podconfigv1.PodFilter{Names: names}
	case 1:
		var wanted []string
		for n := range 100 {
			wanted = append(wanted, fmt.Sprintf("label-%d!=%0100d", n, n))
		}
		return &podconfigv1.PodFilter{LabelSelector: strings.Join(wanted, ",")}
	}
	return nil
}

// rest is the attacker's pause after a refusal; it ends with ctx.
func rest(ctx context.Context, pause time.Duration) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// stream opens a stream until it is served or finally refused, and then stops reading or starts again and again.
func (s *assailant) stream(ctx context.Context, i int, decided func()) {
	api := s.inspectors[i%len(s.inspectors)]
	for ctx.Err() == nil {
		err := s.watch(ctx, api, i, decided)
		if text := status.Convert(err).Message(); strings.Contains(text, "requests a second") {
			rest(ctx, time.Second)
			continue
		}
		if err != nil && ctx.Err() == nil {
			s.refused.Add(1)
			decided()
			return
		}
	}
}

func (s *assailant) watch(ctx context.Context, api podconfigv1.PodConfigServiceClient, i int, decided func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := api.WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{
		Filter: s.filter(i), Format: podconfigv1.PodFormat(1 + i%3),
	})
	if err != nil {
		return err
	}
	if _, err := stream.Recv(); err != nil {
		return err
	}
	s.served.Add(1)
	decided()
	if i%2 == 0 {
		<-ctx.Done()
		return nil
	}
	for range 50 {
		if _, err := stream.Recv(); err != nil {
			return nil // The attacker connects again.
		}
	}
	return nil
}

func (s *assailant) list(ctx context.Context, i int) {
	for ctx.Err() == nil {
		_, err := s.inspectors[0].ListPods(ctx, &podconfigv1.ListPodsRequest{Filter: s.filter(i % 2)})
		if err == nil {
			s.lists.Add(1)
		}
	}
}

// diff sends manifests that cost as much work as one request can.
func (s *assailant) diff(ctx context.Context, i int) {
	bomb := strings.Repeat("a:\n"+strings.Repeat("- -\n", 260_000)+"---\n", 3)
	for n := 0; ctx.Err() == nil; n++ {
		_, err := s.consumer.DiffManifests(ctx, &podconfigv1.DiffManifestsRequest{Manifests: []*podconfigv1.ManifestInput{
			{Origin: fmt.Sprintf("/bomb-%d-%d.yaml", i, n), Content: []byte(bomb)},
		}})
		if err != nil {
			s.refusedDiffs.Add(1)
			rest(ctx, 50*time.Millisecond)
			continue
		}
		s.diffs.Add(1)
	}
}
