package world

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"

	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
	"github.com/podstream/podstream/test/inside"
)

// reports returns the reports of the pod's inspecting containers, by name. It waits until all of them run.
func (p *pod) reports() map[string]*inside.Report {
	p.t.Helper()
	names := p.inspectors()
	pod := p.await("the containers run", func(pod *v1.Pod) error {
		if pod.Status.Phase == v1.PodFailed {
			return finalError{fmt.Errorf("the pod has failed: %s: %s", pod.Status.Reason, pod.Status.Message)}
		}
		for _, name := range names {
			c := statusOf(pod, name)
			if c.RestartCount > 0 || c.State.Terminated != nil {
				return finalError{fmt.Errorf("container %s didn't run on: %+v, before %+v", name, c.State, c.LastTerminationState)}
			}
			if c.State.Running == nil {
				return fmt.Errorf("container %s doesn't run: %+v", name, c.State)
			}
		}
		return nil
	})
	found := map[string]*inside.Report{}
	for _, name := range names {
		r, err := p.report(pod, name)
		if err != nil {
			p.t.Fatalf("what container %s found: %v", name, err)
		}
		if len(r.Errors) > 0 {
			p.t.Logf("container %s couldn't read %q", name, r.Errors)
		}
		found[name] = r
	}
	return found
}

// report returns the first report that the container printed.
func (p *pod) report(pod *v1.Pod, container string) (*inside.Report, error) {
	log, err := p.followLog(pod, container)
	if err != nil {
		return nil, err
	}
	defer log.close()
	line, err := log.next()
	if err != nil {
		return nil, err
	}
	r := &inside.Report{}
	return r, json.Unmarshal(line, r)
}

// log is a container's output, from the beginning.
type log struct {
	stream grpc.ServerStreamingClient[podexecv1.ReadLogsResponse]
	close  func()
	rest   []byte
}

// followLog follows the container's log for at most the time limit of a wait.
func (p *pod) followLog(pod *v1.Pod, container string) (*log, error) {
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	stream, err := p.b.Exec.ReadLogs(ctx, &podexecv1.ReadLogsRequest{
		Ref: &podconfigv1.PodRef{Uid: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name}, Container: container, Follow: true,
	})
	if err != nil {
		cancel()
		return nil, err
	}
	return &log{stream: stream, close: cancel}, nil
}

// next returns the next line.
func (l *log) next() ([]byte, error) {
	for {
		if line, rest, whole := bytes.Cut(l.rest, []byte("\n")); whole {
			l.rest = rest
			return line, nil
		}
		msg, err := l.stream.Recv()
		if err != nil {
			return nil, errors.Join(err, fmt.Errorf("the log goes on with: %.1000s", l.rest))
		}
		if msg.GetStderr() {
			return nil, fmt.Errorf("it printed an error: %s", msg.GetData())
		}
		l.rest = append(l.rest, msg.GetData()...)
	}
}
