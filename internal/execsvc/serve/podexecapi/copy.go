package podexecapi

import (
	"context"
	"strings"

	"google.golang.org/grpc"

	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// maxPath bounds a path in a container. Linux accepts 4096 bytes, of which podexecd needs some: a last NUL, "./" and maxMark.
const maxPath = 3900

type copyStream = grpc.BidiStreamingServer[podexecv1.CopyRequest, podexecv1.CopyResponse]

// Copy is part of podexec.v1.PodExecService.
func (s *Server) Copy(stream copyStream) error {
	if s.cfg.Exec == nil {
		return unimplemented("this podexecd runs no commands")
	}
	if err := permit(stream.Context(), podexecv1.PodExecService_Copy_FullMethodName); err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	start, err := startOf(ctx, s, stream, (*podexecv1.CopyRequest).GetStart)
	if err != nil {
		return err
	}
	if err := checkCopy(start); err != nil {
		return err
	}
	to, err := s.target(ctx, start)
	if err != nil {
		return err
	}
	leave, err := s.slots.copy(ctx, to.pod)
	if err != nil {
		return err
	}
	defer leave()
	if to.defaulted != nil {
		if err := stream.Send(&podexecv1.CopyResponse{Message: &podexecv1.CopyResponse_Defaulted{Defaulted: to.defaulted}}); err != nil {
			return err
		}
	}
	if start.GetDirection() == podexecv1.CopyStart_DIRECTION_FROM_CONTAINER {
		s.acted(ctx, "copy from", to)
		return s.copyFrom(ctx, stream, to, start.GetPath())
	}
	s.acted(ctx, "copy to", to)
	return s.copyTo(ctx, stream, to, start.GetPath())
}

func checkCopy(start *podexecv1.CopyStart) error {
	switch path := start.GetPath(); {
	case start.GetDirection() != podexecv1.CopyStart_DIRECTION_FROM_CONTAINER && start.GetDirection() != podexecv1.CopyStart_DIRECTION_TO_CONTAINER:
		return invalidArgument("start.direction: %d isn't known", start.GetDirection())
	case path == "":
		return invalidArgument("start.path: is empty")
	case len(path) > maxPath:
		return invalidArgument("start.path: has %d bytes; a copy takes at most %d", len(path), maxPath)
	case strings.Contains(path, "\x00"):
		return invalidArgument("start.path: has a NUL")
	}
	return nil
}

// copyFrom sends an archive of the path.
func (s *Server) copyFrom(ctx context.Context, stream copyStream, to target, path string) error {
	dir, name := splitPath(path)
	if err := sendOpened(stream, name); err != nil {
		return err
	}
	p := session[podexecv1.CopyRequest, podexecv1.CopyResponse]{stream: stream, input: noCopyInput, stdout: func(p []byte) *podexecv1.CopyResponse {
		return &podexecv1.CopyResponse{Message: &podexecv1.CopyResponse_Data{Data: p}}
	}}
	return s.runTar(ctx, to, func(dir string) []string { return createTar(dir, name) }, dir, p.runner(s))
}

// copyTo extracts the caller's archive.
func (s *Server) copyTo(ctx context.Context, stream copyStream, to target, path string) error {
	isDir, err := s.isDir(ctx, to, rooted(path))
	if err != nil {
		return err
	}
	dir, name := rooted(path), ""
	if !isDir {
		dir, name = splitPath(path)
	}
	if err := sendOpened(stream, name); err != nil {
		return err
	}
	p := session[podexecv1.CopyRequest, podexecv1.CopyResponse]{stream: stream, input: copyInput, stdin: true, unfinished: errUnfinished}
	return s.runTar(ctx, to, extractTar, dir, p.runner(s))
}

func sendOpened(stream copyStream, name string) error {
	return stream.Send(&podexecv1.CopyResponse{Message: &podexecv1.CopyResponse_Opened{Opened: &podexecv1.CopyOpened{Name: name}}})
}

func copyInput(m *podexecv1.CopyRequest) input {
	switch m := m.GetMessage().(type) {
	case *podexecv1.CopyRequest_Data:
		return piece(m.Data)
	case *podexecv1.CopyRequest_DataClosed:
		return input{closed: true}
	case *podexecv1.CopyRequest_Start:
		return input{mistake: errStartedBefore}
	default:
		return input{}
	}
}

// noCopyInput is copyInput for a copy whose archive the container makes.
func noCopyInput(m *podexecv1.CopyRequest) input {
	in := copyInput(m)
	if len(in.data) > 0 || in.closed {
		in.mistake = invalidArgument("data: is for DIRECTION_TO_CONTAINER")
	}
	return in
}
