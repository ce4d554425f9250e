package podctl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// defaultVolumeBytes and defaultVolumeEntries bound an archive, without flags.
const (
	defaultVolumeBytes   = 64 << 30
	defaultVolumeEntries = 1_000_000
)

func (t *tool) exportVolumeCommand() *cobra.Command {
	var file string
	limit := byteSize(defaultVolumeBytes)
	cmd := &cobra.Command{
		Use:   "export VOLUME",
		Short: "Write the content of a volume as a tar archive",
		Long: `Export writes the files, directories and links of a volume as a tar archive, with owners, permissions and times. Sockets, FIFOs
and devices are left out, and so are files that can't be opened, each with a note. A pod may use the volume meanwhile; a file that becomes shorter while it is read ends the export. No import or removal of the volume begins before the end.

With --output, the file is complete or isn't there: it is written under another name and renamed.`,
		Example: `  podctl volumes export data -o data.tar
  podctl volumes export default/data | gzip > data.tar.gz`,
		Args: oneVolumeArgument,
		RunE: func(cmd *cobra.Command, args []string) error { return t.runExport(cmd.Context(), args[0], file, limit) },
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write to this `file`; by default to standard output")
	cmd.Flags().Var(&limit, "max-bytes", "the maximum `size` of all files, as 500Mi or 20Gi; a file with holes counts as if it had none")
	return cmd
}

func oneVolumeArgument(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one volume; there are %d arguments", len(args))
	}
	_, err := parseVolume(args[0])
	return err
}

func (t *tool) runExport(ctx context.Context, name, file string, limit byteSize) (err error) {
	v, err := parseVolume(name)
	if err != nil {
		return err
	}
	out := t.Stdout
	if in, ok := t.Stdout.(io.Reader); ok && file == "" && terminalOf(in) != nil {
		return errors.New("standard output is a terminal, and the archive isn't text: give --output, or redirect it")
	}
	if file != "" {
		draft, err := os.OpenFile(file+".part", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		out = draft
		defer func() {
			if err = errors.Join(err, draft.Sync(), draft.Close()); err == nil {
				err = os.Rename(draft.Name(), file)
			}
			if err != nil {
				err = errors.Join(err, os.Remove(draft.Name()))
			}
		}()
	}
	return t.export(ctx, v, limit, out)
}

func (t *tool) export(ctx context.Context, v oneVolume, limit byteSize, out io.Writer) error {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := podexecv1.NewPodExecServiceClient(conn).ExportVolume(ctx, &podexecv1.ExportVolumeRequest{
		Namespace: v.namespace, Name: v.name, MaxBytes: int64(limit),
	})
	if err != nil {
		return conn.explain(err)
	}
	ended := false
	for {
		m, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF) && !ended:
			return fmt.Errorf("the archive of volume %s isn't complete", v)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return conn.explain(err)
		case ended:
			return fmt.Errorf("podexecd has sent more after the end of the archive of volume %s, so it may be damaged", v)
		}
		if ended = m.GetEnd() != nil; ended {
			t.noteExport(v, m.GetEnd())
		}
		if _, err := out.Write(m.GetData()); err != nil {
			return fmt.Errorf("write the archive: %w", err)
		}
	}
}

// noteExport prints what isn't in the archive, or can't be imported.
func (t *tool) noteExport(v oneVolume, end *podexecv1.ExportEnd) {
	for _, text := range end.GetNotes()[:min(len(end.GetNotes()), maxNotes)] {
		t.note("%s", text)
	}
	if n := end.GetLeftOut(); n > 0 {
		t.note("%d files of volume %s were left out", n, v)
	}
	if n := end.GetOutsideLinks(); n > 0 {
		t.note("%d symbolic links are absolute or lead out of volume %s: an import restores them as they are", n, v)
	}
}

// importOptions are the flags of import.
type importOptions struct {
	force      bool
	maxBytes   byteSize
	maxEntries int64
}

func (t *tool) importVolumeCommand() *cobra.Command {
	o := importOptions{maxBytes: defaultVolumeBytes}
	cmd := &cobra.Command{
		Use:   "import VOLUME [FILE]",
		Short: "Replace a volume's content by that of a tar archive",
		Long: `Import makes the content of a tar archive that of a volume, which is created if it doesn't exist. The archive is that of FILE, or
of standard input, and not compressed. No pod may use the volume. The content takes the volume's place when all of it is on disk; if
the import fails before that, nothing has changed. If it is broken off while the volume is replaced, the error says that it isn't
known which content the volume has.

A volume that isn't empty is replaced only with --force: its content is removed afterwards. Archives with absolute names, "..", hard
links that lead out, or devices are refused, and so are those that aren't complete. Symbolic links are restored as they are. Files
aren't setuid or setgid.`,
		Example: `  podctl volumes import data data.tar
  gunzip -c data.tar.gz | podctl volumes import default/data --force`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 {
				args = args[:1]
			}
			if o.maxEntries < 1 {
				return errors.New("--max-entries: want a number from 1")
			}
			return oneVolumeArgument(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error { return t.runImport(cmd.Context(), args, o) },
	}
	cmd.Flags().BoolVarP(&o.force, "force", "f", false, "remove the content that the volume has")
	cmd.Flags().Var(&o.maxBytes, "max-bytes", "the maximum `size` of all files, as 500Mi or 20Gi; a file with holes counts as if it had none")
	cmd.Flags().Int64Var(&o.maxEntries, "max-entries", defaultVolumeEntries, "the maximum `number` of files, directories and links")
	return cmd
}

func (t *tool) runImport(ctx context.Context, args []string, o importOptions) error {
	v, err := parseVolume(args[0])
	if err != nil {
		return err
	}
	in := t.Stdin
	if len(args) == 2 && args[1] != "-" {
		file, err := os.Open(args[1])
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	} else if terminalOf(t.Stdin) != nil {
		return errors.New("standard input is a terminal: name the file of the archive")
	}
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Without the archive's end, nothing is imported.
	stream, err := podexecv1.NewPodExecServiceClient(conn).ImportVolume(ctx)
	if err != nil {
		return conn.explain(err)
	}
	err = sendArchive(stream.Send, in, &podexecv1.ImportStart{
		Namespace: v.namespace, Name: v.name, Replace: o.force, MaxBytes: int64(o.maxBytes), MaxEntries: o.maxEntries,
	})
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the call has ended, and its error says why.
		return err
	}
	whole := err == nil
	resp, err := stream.CloseAndRecv()
	if code := status.Code(err); err != nil && whole && (code == codes.Canceled || code == codes.Unavailable || code == codes.DeadlineExceeded) {
		// The archive's end was sent, so the answer that is lost may be that of an import.
		return fmt.Errorf("it isn't known which content volume %s has, that from before or the archive's: %w", v, conn.explain(err))
	}
	if err != nil {
		return conn.explain(err)
	}
	if _, err := fmt.Fprintln(t.Stdout, render.Escape(fmt.Sprintf("%s imported: %d files and directories", v, resp.GetEntries()))); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	t.noteLeft(v, resp.GetLeft())
	return nil
}

// sendArchive sends the messages of an import. It returns io.EOF if the call has ended.
func sendArchive(send func(*podexecv1.ImportVolumeRequest) error, in io.Reader, start *podexecv1.ImportStart) error {
	if err := send(&podexecv1.ImportVolumeRequest{Message: &podexecv1.ImportVolumeRequest_Start{Start: start}}); err != nil {
		return err
	}
	for {
		piece := make([]byte, maxPiece) // A message that was sent must not be changed.
		n, err := io.ReadFull(in, piece)
		if n > 0 {
			if err := send(&podexecv1.ImportVolumeRequest{Message: &podexecv1.ImportVolumeRequest_Data{Data: piece[:n]}}); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return send(&podexecv1.ImportVolumeRequest{Message: &podexecv1.ImportVolumeRequest_DataClosed{DataClosed: true}})
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
	}
}
