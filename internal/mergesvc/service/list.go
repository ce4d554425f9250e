package service

import (
	"context"
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/podstream/podstream/internal/mergesvc/history"
	"github.com/podstream/podstream/internal/mergesvc/revision"
	"github.com/podstream/podstream/internal/mergesvc/wire"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// The bounds of a page.
const (
	defaultPageSize = 500
	// keptLists is how many states are kept for lists that are being paged through.
	keptLists = 4
)

// lists keeps the states that somebody is paging through, the latest used last.
type lists struct {
	mu     sync.Mutex
	states []*history.State
}

// ListPods is part of podconfig.v1.PodConfigService.
func (s *Server) ListPods(ctx context.Context, req *podconfigv1.ListPodsRequest) (*podconfigv1.ListPodsResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	if req.GetPageSize() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "page_size: is %d", req.GetPageSize())
	}
	v, err := viewOf(caller, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, req.GetFilter())
	if err != nil {
		return nil, err
	}
	st, start := s.history.State(), 0
	if req.GetPageToken() != "" {
		if st, start, err = s.lists.find(req.GetPageToken()); err != nil {
			return nil, err
		}
	}
	limit := int(req.GetPageSize())
	if limit == 0 {
		limit = defaultPageSize
	}
	resp := &podconfigv1.ListPodsResponse{Revision: st.Number, InstanceId: st.Instance}
	size := 0
	for i := start; i < len(st.Pods); i++ {
		if !v.Matches(st.Pods[i]) {
			continue
		}
		m, err := st.Pods[i].Message(revision.Encoding{Format: req.GetFormat(), Redacted: v.Redacted()})
		if err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		n := proto.Size(m)
		if len(resp.Pods) == limit || size > 0 && size+n > wire.FragmentSize {
			resp.NextPageToken = s.lists.keep(st, i)
			break
		}
		resp.Pods, size = append(resp.Pods, m), size+n
	}
	return resp, nil
}

// keep remembers the state and returns a token for the page that starts at index.
func (l *lists) keep(st *history.State, index int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.states = slices.DeleteFunc(l.states, func(o *history.State) bool { return o == st })
	l.states = append(l.states, st)
	if len(l.states) > keptLists {
		l.states = slices.Clone(l.states[1:])
	}
	token := st.Instance + " " + strconv.FormatUint(st.Number, 10) + " " + strconv.Itoa(index)
	return base64.RawURLEncoding.EncodeToString([]byte(token))
}

func (l *lists) find(token string) (*history.State, int, error) {
	data, err := base64.RawURLEncoding.DecodeString(token)
	fields := strings.Fields(string(data))
	if err != nil || len(fields) != 3 {
		return nil, 0, status.Error(codes.InvalidArgument, "page_token: isn't one of podconfigd's")
	}
	number, err1 := strconv.ParseUint(fields[1], 10, 64)
	index, err2 := strconv.Atoi(fields[2])
	if err1 != nil || err2 != nil || index < 0 {
		return nil, 0, status.Error(codes.InvalidArgument, "page_token: isn't one of podconfigd's")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, st := range l.states {
		if st.Instance == fields[0] && st.Number == number {
			return st, index, nil
		}
	}
	return nil, 0, status.Errorf(codes.Aborted,
		"page_token: revision %d is no longer kept; start the list again without a token", number)
}

// GetPod is part of podconfig.v1.PodConfigService.
func (s *Server) GetPod(ctx context.Context, req *podconfigv1.GetPodRequest) (*podconfigv1.GetPodResponse, error) {
	caller, err := callerOf(ctx)
	if err != nil {
		return nil, err
	}
	v, err := viewOf(caller, podconfigv1.NotificationMode_NOTIFICATION_MODE_INCREMENTAL, nil)
	if err != nil {
		return nil, err
	}
	if err := checkFormat(req.GetFormat()); err != nil {
		return nil, err
	}
	ref := req.GetRef()
	if ref.GetUid() == "" && ref.GetName() == "" {
		return nil, status.Error(codes.InvalidArgument, "ref: needs a uid or a name")
	}
	namespace := ref.GetNamespace()
	if namespace == "" {
		namespace = "default"
	}
	st := s.history.State()
	i := slices.IndexFunc(st.Pods, func(p *revision.Pod) bool {
		// What is out of the caller's scope doesn't exist for it.
		if !v.Matches(p) {
			return false
		}
		if ref.GetUid() != "" {
			return string(p.UID()) == ref.GetUid()
		}
		return p.Object.Namespace == namespace && p.Object.Name == ref.GetName()
	})
	if i < 0 {
		return nil, status.Errorf(codes.NotFound, "there is no pod %s", describe(ref, namespace))
	}
	m, err := st.Pods[i].Message(revision.Encoding{Format: req.GetFormat(), Redacted: v.Redacted()})
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	return &podconfigv1.GetPodResponse{Pod: m, Revision: st.Number}, nil
}

func describe(ref *podconfigv1.PodRef, namespace string) string {
	if ref.GetUid() != "" {
		return "with uid " + ref.GetUid()
	}
	return namespace + "/" + ref.GetName()
}
