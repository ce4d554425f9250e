package service

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

const (
	// callTime bounds a call to a daemon.
	callTime = 10 * time.Second
	// maxYAML and maxYAMLLines bound the texts of a pod.
	maxYAML, maxYAMLLines = 256 << 10, 10_000
	// maxPodEvents bounds the events of a pod.
	maxPodEvents = 200
)

// ref returns the reference of the pod with a key.
func (s *Service) ref(key string) (*podconfigv1.PodRef, error) {
	uid, ok := s.cfg.Board.UID(key)
	if !ok {
		return nil, refuse(connect.CodeNotFound, "there is no such pod any more")
	}
	return &podconfigv1.PodRef{Uid: uid}, nil
}

// GetPod is part of podweb.v1.
func (s *Service) GetPod(ctx context.Context, req *podwebv1.GetPodRequest) (*podwebv1.GetPodResponse, error) {
	s.cfg.Idle.Touch()
	ref, err := s.ref(req.GetKey())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	out := &podwebv1.GetPodResponse{}
	row, _ := s.cfg.Board.Pods.Get(req.GetKey())
	out.Row = row
	desired, observed := s.halves(ctx, ref, out)
	if desired == nil && observed == nil {
		return nil, refuse(connect.CodeNotFound, "there is no such pod any more")
	}
	have := s.cfg.Board.Answered()
	if pairs, _ := podsummary.Join(list(desired), list(observed)); len(pairs) > 0 {
		for _, reason := range pairs[0].WaitReasons(have, s.cfg.Clock.Now()) {
			out.WaitReasons = append(out.WaitReasons, plaintext.Line(reason, plaintext.Message))
		}
		if pairs[0].Content != nil {
			out.DesiredYaml = yamlOf(pairs[0].Content)
		}
		if pairs[0].Status != nil {
			out.ObservedYaml = yamlOf(pairs[0].Status)
		}
	}
	return out, nil
}

func list[T any](one *T) []*T {
	if one == nil {
		return nil
	}
	return []*T{one}
}

// halves asks both daemons at once, and adds what is missing. What a daemon doesn't answer is as last known.
func (s *Service) halves(ctx context.Context, ref *podconfigv1.PodRef, out *podwebv1.GetPodResponse) (*podconfigv1.Pod, *podexecv1.ObservedPod) {
	desired, observed := s.cfg.Board.Pod(ref.GetUid())
	const format = podconfigv1.PodFormat_POD_FORMAT_PROTOBUF
	var wg sync.WaitGroup
	var desiredErr, observedErr error
	if d := s.cfg.Podconfigd; d != nil {
		wg.Go(func() {
			r, err := podconfigv1.NewPodConfigServiceClient(d.Conn).GetPod(ctx, &podconfigv1.GetPodRequest{Ref: ref, Format: format})
			if err == nil || status.Code(err) == codes.NotFound {
				desired = r.GetPod()
			} else {
				desiredErr = failed(d, err)
			}
		})
	}
	if d := s.cfg.Podexecd; d != nil {
		wg.Go(func() {
			r, err := podexecv1.NewPodExecServiceClient(d.Conn).GetPod(ctx, &podexecv1.GetPodRequest{Ref: ref, Format: format})
			if err == nil || status.Code(err) == codes.NotFound {
				observed = r.GetPod()
			} else {
				observedErr = failed(d, err)
			}
		})
	}
	wg.Wait()
	var missing []string
	if desiredErr != nil {
		missing = append(missing, "what is desired is as last known: "+message(desiredErr))
	}
	if observedErr != nil {
		missing = append(missing, "what is observed is as last known: "+message(observedErr))
	}
	out.Missing = strings.Join(missing, "; ")
	out.Events = s.events(board.Key("pod", ref.GetUid()))
	return desired, observed
}

// events returns the events of a pod, the oldest first.
func (s *Service) events(podKey string) []*podwebv1.EventRow {
	var own []*podwebv1.EventRow
	for _, row := range s.cfg.Board.Events.Rows() {
		if row.GetPodKey() == podKey {
			own = append(own, row)
		}
	}
	slices.SortFunc(own, func(a, b *podwebv1.EventRow) int {
		return cmp.Or(a.GetLastTime().AsTime().Compare(b.GetLastTime().AsTime()), cmp.Compare(a.GetKey(), b.GetKey()))
	})
	return own[max(len(own)-maxPodEvents, 0):]
}

// yamlOf returns a value as harmless YAML. Empty: it can't be encoded.
func yamlOf(v any) string {
	text, err := render.JSON(v)
	if err == nil {
		text, err = render.YAML(text)
	}
	if err != nil {
		return ""
	}
	out, cut := plaintext.Lines(text, maxYAML, maxYAMLLines)
	if cut {
		out += "\n# It is longer: see podctl pods -o yaml.\n"
	}
	return out
}
