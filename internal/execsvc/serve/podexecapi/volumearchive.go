package podexecapi

import (
	"cmp"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/podstream/podstream/internal/execsvc/setup/storage/claimvolumes"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// The limits of an import that sets none.
const defaultImportBytes, defaultImportEntries = 64 << 30, 1_000_000

// maxImport bounds the limits that a caller can set, such that sums with them don't overflow.
const maxImportBytes, maxImportEntries = 1 << 50, 1 << 30

// ExportVolume is part of podexec.v1.PodExecService.
func (s *Server) ExportVolume(req *podexecv1.ExportVolumeRequest, stream grpc.ServerStreamingServer[podexecv1.ExportVolumeResponse]) error {
	if err := s.onVolumes(stream.Context(), podexecv1.PodExecService_ExportVolume_FullMethodName); err != nil {
		return err
	}
	if req.GetMaxBytes() < 0 {
		return invalidArgument("max_bytes: is %d", req.GetMaxBytes())
	}
	leave, err := room(s.volumeArchives, "volumes are being exported or imported")
	if err != nil {
		return err
	}
	defer leave()
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	c := claimOf(req)
	s.changesVolume(ctx, "export", c)
	out := &sender[podexecv1.ExportVolumeResponse]{stream: stream}
	moved, err := s.cfg.Volumes.Export(ctx, c, claimvolumes.Limits{Bytes: req.GetMaxBytes()}, out.writer(archivePiece))
	out.close() // A message that the caller doesn't read ends with the call.
	switch {
	case ctx.Err() != nil:
		return s.ended(ctx)
	case err != nil:
		return volumeError(ctx, err)
	}
	end := &podexecv1.ExportEnd{Entries: moved.Entries, Bytes: moved.Bytes, LeftOut: moved.LeftOut, OutsideLinks: moved.Outside}
	for _, n := range moved.Notes {
		end.Notes = append(end.Notes, valid(n))
	}
	return stream.Send(&podexecv1.ExportVolumeResponse{Message: &podexecv1.ExportVolumeResponse_End{End: end}})
}

func archivePiece(data []byte) *podexecv1.ExportVolumeResponse {
	return &podexecv1.ExportVolumeResponse{Message: &podexecv1.ExportVolumeResponse_Data{Data: data}}
}

type importStream = grpc.ClientStreamingServer[podexecv1.ImportVolumeRequest, podexecv1.ImportVolumeResponse]

// ImportVolume is part of podexec.v1.PodExecService.
func (s *Server) ImportVolume(stream importStream) error {
	if err := s.onVolumes(stream.Context(), podexecv1.PodExecService_ImportVolume_FullMethodName); err != nil {
		return err
	}
	ctx, cancel := s.untilClosed(stream.Context())
	defer cancel()
	start, err := startOf(ctx, s, stream, (*podexecv1.ImportVolumeRequest).GetStart)
	if err != nil {
		return err
	}
	limits := claimvolumes.Limits{Bytes: cmp.Or(start.GetMaxBytes(), defaultImportBytes), Entries: cmp.Or(start.GetMaxEntries(), defaultImportEntries)}
	if limits.Bytes < 0 || limits.Bytes > maxImportBytes || limits.Entries < 0 || limits.Entries > maxImportEntries {
		return invalidArgument("start: max_bytes is %d and max_entries %d; want 0 to %d and %d", start.GetMaxBytes(), start.GetMaxEntries(),
			int64(maxImportBytes), int64(maxImportEntries))
	}
	leave, err := room(s.volumeArchives, "volumes are being exported or imported")
	if err != nil {
		return err
	}
	defer leave()
	c := claimOf(start)
	s.changesVolume(ctx, "import", c)
	reader, writer := io.Pipe()
	// It blocks in Recv, so it ends when the call does.
	go func() { _ = writer.CloseWithError(receiveArchive(stream, writer)) }()
	moved, err := s.cfg.Volumes.Import(ctx, c, limits, start.GetReplace(), reader)
	switch {
	case err == nil:
		return stream.SendAndClose(&podexecv1.ImportVolumeResponse{Entries: moved.Entries, Bytes: moved.Bytes, Left: valid(moved.Left)})
	case ctx.Err() != nil && !errors.Is(err, claimvolumes.ErrUnknown):
		return s.ended(ctx)
	}
	return volumeError(context.WithoutCancel(ctx), err)
}

// receiveArchive writes the caller's archive. It returns io.EOF only if the caller has ended it.
func receiveArchive(stream interface {
	Recv() (*podexecv1.ImportVolumeRequest, error)
}, out io.Writer) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return errUnfinished
		}
		if err != nil {
			return err
		}
		switch m := m.GetMessage().(type) {
		case *podexecv1.ImportVolumeRequest_DataClosed:
			return io.EOF
		case *podexecv1.ImportVolumeRequest_Start:
			return errStartedBefore
		case *podexecv1.ImportVolumeRequest_Data:
			if len(m.Data) > maxPiece {
				return errLongPiece
			}
			if _, err := out.Write(m.Data); err != nil {
				return err
			}
		}
	}
}
