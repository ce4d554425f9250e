package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/podstream/podstream/internal/failpoint"
	"github.com/podstream/podstream/internal/podctl/web/board"
	"github.com/podstream/podstream/internal/podctl/web/plaintext"
	podwebv1 "github.com/podstream/podstream/internal/podctl/web/proto/podweb/v1"
)

const (
	// maxCommand and maxArguments bound a command.
	maxCommand, maxArguments = 4 << 10, 64
	// maxResultLines bounds what an action reports.
	maxResultLines = 200
)

// execRefusal returns why exec isn't allowed. Empty: it is.
func (s *Service) execRefusal() string {
	switch {
	case s.cfg.Podexecd == nil:
		return "podexecd isn't asked"
	case !s.cfg.AllowExec && !failpoint.Active(failpoint.WebReadOnly):
		return "podctl web is read-only: start it with --allow-exec"
	}
	return ""
}

// applyRefusal returns why nothing else may be changed. Empty: it may.
func (s *Service) applyRefusal() string {
	switch a := s.cfg.Actions; {
	case s.cfg.Recording != "":
		return "a recording can't be changed"
	case !s.cfg.AllowApply && !failpoint.Active(failpoint.WebReadOnly):
		return "podctl web is read-only: start it with --allow-apply"
	case a.Applier == nil && a.Restart == nil:
		return unavailable
	}
	return ""
}

// Allowed returns an error if the flags don't allow the action, or it isn't valid.
func (s *Service) Allowed(action *podwebv1.Action) error {
	refusal := s.applyRefusal()
	available := true
	switch a := action.GetAction().(type) {
	case *podwebv1.Action_Exec:
		refusal = s.execRefusal()
		size := 0
		for _, arg := range a.Exec.GetCommand() {
			size += len(arg)
		}
		if n := len(a.Exec.GetCommand()); n == 0 || n > maxArguments || size > maxCommand {
			return refuse(connect.CodeInvalidArgument, "a command has 1 to 64 arguments, of 4 KiB in all")
		}
	case *podwebv1.Action_Restart:
		available = s.cfg.Actions.Restart != nil
	case *podwebv1.Action_Apply:
		refusal = s.manifestRefusal()
		if len(a.Apply.GetContent()) > maxManifest {
			return refuse(connect.CodeResourceExhausted, "the manifest is larger than 3 MiB")
		}
	case *podwebv1.Action_Delete:
		refusal = s.manifestRefusal()
	default:
		return refuse(connect.CodeInvalidArgument, "there is no action")
	}
	switch {
	case refusal != "":
		return refuse(connect.CodePermissionDenied, refusal)
	case !available:
		return refuse(connect.CodeUnimplemented, unavailable)
	}
	return nil
}

// Prepare is part of podweb.v1.
func (s *Service) Prepare(_ context.Context, req *podwebv1.PrepareRequest) (*podwebv1.PrepareResponse, error) {
	s.cfg.Idle.Touch()
	if err := s.Allowed(req.GetAction()); err != nil {
		return nil, err
	}
	lines, err := s.describe(req.GetAction())
	if err != nil {
		return nil, err
	}
	confirmation, err := s.cfg.Confirm.New(req.GetAction())
	if err != nil {
		return nil, refuse(connect.CodeInternal, err.Error())
	}
	return &podwebv1.PrepareResponse{Confirmation: confirmation, Lines: lines}, nil
}

// describe says what an action would do.
func (s *Service) describe(action *podwebv1.Action) ([]string, error) {
	switch a := action.GetAction().(type) {
	case *podwebv1.Action_Exec:
		pod, err := s.podText(a.Exec.GetPodKey())
		return []string{
			"Run a command in pod " + pod, containerText(a.Exec.GetContainer(), "Its default container"),
			"Command: " + plaintext.Line(fmt.Sprintf("%q", a.Exec.GetCommand()), plaintext.Message),
		}, err
	case *podwebv1.Action_Restart:
		pod, err := s.podText(a.Restart.GetPodKey())
		return []string{"Restart pod " + pod, containerText(a.Restart.GetContainer(), "All of its containers")}, err
	case *podwebv1.Action_Delete:
		if _, err := s.deletable(a.Delete.GetPodKey()); err != nil {
			return nil, err
		}
		pod, err := s.podText(a.Delete.GetPodKey())
		return []string{"Delete pod " + pod}, err
	case *podwebv1.Action_Apply:
		return []string{
			fmt.Sprintf("Apply a manifest of %d bytes to this node", len(a.Apply.GetContent())),
			fmt.Sprintf("As compared with revision %d", a.Apply.GetRevision()),
		}, nil
	}
	return nil, nil
}

func containerText(container, all string) string {
	if container == "" {
		return all
	}
	return "Container " + plaintext.Line(container, plaintext.Name)
}

// podText returns the name of a pod.
func (s *Service) podText(key string) (string, error) {
	row, ok := s.cfg.Board.Pods.Get(key)
	if !ok {
		return "", refuse(connect.CodeNotFound, "there is no such pod any more")
	}
	return row.GetName().GetNamespace() + "/" + row.GetName().GetName(), nil
}

// Act is part of podweb.v1.
func (s *Service) Act(ctx context.Context, req *podwebv1.ActRequest) (*podwebv1.ActResponse, error) {
	s.cfg.Idle.Touch()
	if err := s.Allowed(req.GetAction()); err != nil {
		return nil, err
	}
	if err := s.cfg.Confirm.Use(req.GetConfirmation(), req.GetAction()); err != nil {
		return nil, connect.NewError(connect.CodeFailedPrecondition, err)
	}
	out := &podwebv1.ActResponse{}
	var err error
	switch a := req.GetAction().GetAction().(type) {
	case *podwebv1.Action_Restart:
		pod, refErr := s.ref(a.Restart.GetPodKey())
		if refErr != nil {
			return nil, refErr
		}
		out.Lines, err = s.cfg.Actions.Restart(ctx, pod, a.Restart.GetContainer())
		err = failed(s.cfg.Podexecd, err)
	case *podwebv1.Action_Delete:
		pod, refErr := s.deletable(a.Delete.GetPodKey())
		if refErr != nil {
			return nil, refErr
		}
		out.Lines, out.Revision, err = s.cfg.Actions.Applier.Delete(ctx, pod)
		err = failed(nil, err)
	case *podwebv1.Action_Apply:
		out.Lines, out.Revision, err = s.cfg.Actions.Applier.Apply(ctx, a.Apply.GetContent(), a.Apply.GetBasis())
		err = failed(nil, err)
	default:
		return nil, refuse(connect.CodeInvalidArgument, "a command is run by the WebSocket")
	}
	if err != nil {
		return nil, err
	}
	out.Lines = boundedLines(out.GetLines())
	return out, nil
}

// boundedLines makes the lines short, harmless and few.
func boundedLines(lines []string) []string {
	out := make([]string, 0, min(len(lines), maxResultLines+1))
	for _, line := range lines[:min(len(lines), maxResultLines)] {
		out = append(out, plaintext.Line(line, plaintext.Message))
	}
	if more := len(lines) - len(out); more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}

// sortedSources returns the sources in order of priority.
func sortedSources(b *board.Board) []*podwebv1.SourceRow {
	rows := make([]*podwebv1.SourceRow, 0, b.Sources.Len())
	for _, row := range b.Sources.Rows() {
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b *podwebv1.SourceRow) int {
		return cmp.Or(cmp.Compare(a.GetPriority(), b.GetPriority()), strings.Compare(a.GetName(), b.GetName()))
	})
	return rows
}
