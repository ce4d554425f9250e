package differential

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	"github.com/podstream/podstream/test/injectd/inject"
)

// marker is an additional source with the lowest priority. Its one pod changes after each set, so that every
// consumer receives an op after any set, which shows that there is nothing more.
const marker = "marker"

// Podstream is an injectd, a process, with a consumer in each of Modes.
type Podstream struct {
	process   *process
	inject    *inject.Client
	conn      *grpc.ClientConn
	cancel    context.CancelFunc
	consumers []grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse]
	marks     int
}

// StartPodstream starts the program, a built test/injectd, with env added to its environment, and subscribes.
// Its streams end with ctx. The caller ends it with Close.
func StartPodstream(ctx context.Context, program string, env ...string) (_ *Podstream, err error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &Podstream{cancel: cancel}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.process, err = startProcess(program, arguments, env...); err != nil {
		return nil, err
	}
	if p.inject, err = inject.Dial(ctx, filepath.Join(p.process.dir, "inject.sock")); err != nil {
		return nil, err
	}
	// The service starts to listen at about the same time, so a second attempt is made at once.
	retry := grpc.ConnectParams{
		Backoff:           backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.5, MaxDelay: time.Second},
		MinConnectTimeout: time.Minute, // Without it, an attempt's time limit is the delay.
	}
	p.conn, err = grpc.NewClient("unix://"+filepath.Join(p.process.dir, "grpc.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithConnectParams(retry))
	if err != nil {
		return nil, err
	}
	for _, mode := range Modes {
		stream, err := podconfigv1.NewPodConfigServiceClient(p.conn).WatchPodUpdates(ctx, &podconfigv1.WatchPodUpdatesRequest{
			Consumer: mode.Name, Mode: mode.podstream, Format: podconfigv1.PodFormat_POD_FORMAT_PROTOBUF,
		}, grpc.WaitForReady(true))
		if err != nil {
			return nil, fmt.Errorf("subscribe %s: %w", mode.Name, err)
		}
		p.consumers = append(p.consumers, stream)
		for synced := false; !synced; {
			msg, err := stream.Recv()
			if err != nil {
				return nil, fmt.Errorf("read the initial state, %s: %w", mode.Name, err)
			}
			if pods := msg.GetUpdate().GetPods(); len(pods) > 0 {
				return nil, fmt.Errorf("%s: the initial state has %d pods; want none", mode.Name, len(pods))
			}
			synced = msg.GetSynced() != nil
		}
	}
	return p, nil
}

func arguments(dir string) []string {
	args := []string{
		"--root-dir", filepath.Join(dir, "state"), "--listen", "unix://" + filepath.Join(dir, "grpc.sock"),
		"--inject-listen", "unix://" + filepath.Join(dir, "inject.sock"),
	}
	for _, s := range append(slices.Clone(Sources), marker) {
		args = append(args, "--inject-source", s)
	}
	return args
}

// Set merges the set and returns the ops that each consumer, in the order of Modes, received for it.
func (p *Podstream) Set(s Step) ([][]Op, error) {
	if _, err := p.inject.Apply(inject.Set{Source: s.Source, Origins: origins(s)}); err != nil {
		return nil, err
	}
	p.marks++
	mark := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: marker, Namespace: marker, UID: marker, Labels: map[string]string{marker: strconv.Itoa(p.marks)},
	}}
	end, err := p.inject.Apply(inject.Set{Source: marker, Origins: []inject.Origin{{Name: marker, Pods: []*v1.Pod{mark}}}})
	if err != nil {
		return nil, err
	}
	received := make([][]Op, len(Modes))
	for i, mode := range Modes {
		if received[i], err = read(p.consumers[i], end.Revision); err != nil {
			return nil, fmt.Errorf("%s: %w", mode.Name, err)
		}
	}
	return received, nil
}

// origins returns the set as a source hands it over: the pods of http are items of one origin, the others have
// one origin each.
func origins(s Step) []inject.Origin {
	if s.Source == "http" {
		return []inject.Origin{{Name: "list", Pods: s.Pods}}
	}
	out := make([]inject.Origin, len(s.Pods))
	names := map[string]int{}
	for i, pod := range s.Pods {
		name := pod.Namespace + "/" + pod.Name + "/" + string(pod.UID)
		out[i] = inject.Origin{Name: name + strings.Repeat("+", names[name]), Pods: []*v1.Pod{pod}}
		names[name]++
	}
	return out
}

// read returns the stream's ops up to the given revision, without the marker's.
func read(stream grpc.ServerStreamingClient[podconfigv1.WatchPodUpdatesResponse], end uint64) ([]Op, error) {
	var ops []Op
	// continues is set if the last op may be a SET that the next message continues.
	continues := false
	for {
		msg, err := stream.Recv()
		if err != nil {
			return nil, fmt.Errorf("read up to revision %d: %w", end, err)
		}
		if msg.GetSynced() != nil {
			return nil, errors.New("synced comes a second time")
		}
		if u := msg.GetUpdate(); u != nil && u.GetSource() != marker {
			op, err := decode(u)
			if err != nil {
				return nil, err
			}
			if last := len(ops) - 1; continues && op.Op == "SET" && ops[last].Op == "SET" {
				ops[last].Pods = append(ops[last].Pods, op.Pods...)
			} else {
				ops = append(ops, op)
			}
			continues = msg.GetContinued()
		}
		switch at := msg.GetCursor().GetRevision(); {
		case at > end:
			return nil, fmt.Errorf("revision %d was received; want %d to be the last", at, end)
		case at == end:
			return ops, nil
		}
	}
}

// decode returns the update with decoded pods.
func decode(u *podconfigv1.PodUpdate) (Op, error) {
	op := Op{Op: strings.TrimPrefix(u.GetOp().String(), "POD_OPERATION_"), Source: u.GetSource()}
	for _, p := range u.GetPods() {
		if p.GetSource() == marker {
			continue
		}
		ref := p.GetRef()
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: ref.GetName(), Namespace: ref.GetNamespace(), UID: types.UID(ref.GetUid())}}
		if op.Op != "REMOVE" {
			pod = &v1.Pod{}
			if err := pod.Unmarshal(p.GetProtobuf()); err != nil {
				return Op{}, fmt.Errorf("decode pod %v of %s: %w", ref, op, err)
			}
			if got := (&podconfigv1.PodRef{Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}); got.String() != ref.String() {
				return Op{}, fmt.Errorf("the reference %v is of pod %v", ref, got)
			}
		}
		if op.Op != "SET" && p.GetSource() != op.Source {
			return Op{}, fmt.Errorf("pod %v of source %s comes in %s", ref, p.GetSource(), op)
		}
		if p.GetStale() {
			return Op{}, fmt.Errorf("pod %v of %s is stale", ref, op)
		}
		op.Pods = append(op.Pods, pod)
	}
	return op, nil
}

// Close ends the streams and the process. It returns an error if the process failed.
func (p *Podstream) Close() error {
	p.cancel()
	if p.conn != nil {
		_ = p.conn.Close()
	}
	if p.inject != nil {
		_ = p.inject.Close()
	}
	if p.process == nil {
		return nil
	}
	return p.process.stop()
}
