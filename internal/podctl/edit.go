package podctl

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/podstream/podstream/internal/openfile"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
)

// defaultEditor is kubectl's.
const defaultEditor = "vi"

func (t *tool) editCommand() *cobra.Command {
	var p podName
	cmd := &cobra.Command{
		Use:   "edit POD",
		Short: "Edit the manifest of a pod",
		Long: `Edit opens the manifest of a pod in $EDITOR, or vi.

Of an applied pod, ConfigMap (configmap/NAME) or Secret (secret/NAME), it opens a copy of the document that podconfigd has stored.
After you leave the editor, it prints the difference and applies the document, if the stored one hasn't changed meanwhile. If that
fails, the copy is kept, and its path printed.

Of a pod from a file, it opens that file itself, with your own rights, and prints the difference afterwards. podconfigd reads the file
when you save it. The pods of an API server are edited with kubectl.`,
		Args: onePod,
		RunE: func(cmd *cobra.Command, args []string) error { return t.runEdit(cmd.Context(), p, args[0]) },
	}
	p.addNamespaceFlag(cmd)
	return cmd
}

func (t *tool) runEdit(ctx context.Context, p podName, argument string) error {
	refs, err := refsOf([]string{argument}, string(p.namespace))
	if err != nil {
		return err
	}
	conn, err := t.podconfigd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	document, err := t.appliedManifest(ctx, conn, refs[0])
	if err != nil {
		return err
	}
	if document != nil {
		return t.editApplied(ctx, document)
	}
	if refs[0].GetKind() != "Pod" {
		return fmt.Errorf("there is no applied %s", argument)
	}
	p.set(argument)
	origin, err := t.originOf(ctx, conn, p)
	if err != nil {
		return err
	}
	return t.editOrigin(ctx, origin)
}

// appliedManifest returns the stored document; nil if there is none that the caller may see.
func (t *tool) appliedManifest(ctx context.Context, conn *connection, ref *podconfigv1.ManifestRef) (*podconfigv1.AppliedManifest, error) {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	resp, err := podconfigv1.NewPodConfigServiceClient(conn).ListManifests(ctx, &podconfigv1.ListManifestsRequest{Refs: []*podconfigv1.ManifestRef{ref}},
		grpc.MaxCallRecvMsgSize(maxDiff))
	switch status.Code(err) {
	case codes.OK:
	case codes.PermissionDenied, codes.FailedPrecondition, codes.Unimplemented:
		return nil, nil //nolint:nilnil // The caller has no such documents, and may edit a file.
	default:
		return nil, conn.explain(err)
	}
	if len(resp.GetManifests()) == 0 {
		return nil, nil //nolint:nilnil // There is none.
	}
	return resp.GetManifests()[0], nil
}

// originOf asks podconfigd where the pod's manifest is.
func (t *tool) originOf(ctx context.Context, conn *connection, p podName) (*podconfigv1.PodOrigin, error) {
	names := t.names(ctx, p)
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	for _, name := range names {
		resp, err := podconfigv1.NewPodConfigServiceClient(conn).GetPod(ctx, &podconfigv1.GetPodRequest{
			Ref:    &podconfigv1.PodRef{Namespace: string(p.namespace), Name: name},
			Format: podconfigv1.PodFormat_POD_FORMAT_REFERENCE, WithOrigin: true,
		})
		switch status.Code(err) {
		case codes.OK:
			return resp.GetOrigin(), nil
		case codes.NotFound:
		default:
			return nil, conn.explain(err)
		}
	}
	return nil, fmt.Errorf("podconfigd has no pod %s", p)
}

// editApplied edits a copy of a stored document, and applies it.
func (t *tool) editApplied(ctx context.Context, document *podconfigv1.AppliedManifest) (err error) {
	// Of mode 0700: a manifest may have passwords.
	dir, err := os.MkdirTemp("", "podctl-edit-")
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "manifest.yaml")
	keep := false
	defer func() {
		if keep && err != nil {
			t.note("the edited manifest is kept in %s", path)
			return
		}
		_ = os.RemoveAll(dir) // It is a temporary copy.
	}()
	if err := os.WriteFile(path, document.GetContent(), 0o600); err != nil {
		return err
	}
	if err := t.runEditor(path); err != nil {
		return err
	}
	edited, err := readManifest(ctx, path, maxManifests)
	if err != nil {
		return err
	}
	if bytes.Equal(edited, document.GetContent()) {
		t.note("nothing was changed")
		return nil
	}
	keep = true
	req := &podconfigv1.ApplyManifestsRequest{
		Files:    []*podconfigv1.ManifestFile{{Name: path, Content: edited}},
		Set:      document.GetSet(),
		Expected: []*podconfigv1.ManifestExpectation{{Ref: document.GetRef(), Digest: document.GetDigest()}},
	}
	return t.apply(ctx, req, applyOptions{diff: true})
}

// editOrigin edits the file of a pod, with the rights of the calling user.
func (t *tool) editOrigin(ctx context.Context, o *podconfigv1.PodOrigin) error {
	path := o.GetOrigin()
	switch kind, _, _ := strings.Cut(o.GetSource(), ":"); {
	case kind == "api":
		return fmt.Errorf("the pod is from the API server (source %s): use kubectl edit", o.GetSource())
	case kind != "file":
		return fmt.Errorf("the pod is from %s (source %s): edit it there", path, o.GetSource())
	case t.podconfigd.endpoint.address != "":
		return fmt.Errorf("the pod is from %s on podconfigd's machine: edit it there", path)
	case !filepath.IsAbs(path):
		return fmt.Errorf("podconfigd names no file of the pod, but %q", path)
	}
	before, err := readWritable(ctx, path)
	if err != nil {
		return fmt.Errorf("the pod is from %s: %w; podctl edits it with your rights only", path, err)
	}
	if o.GetLine() > 0 {
		t.note("the pod is at %s:%d", path, o.GetLine())
	}
	if err := t.runEditor(path); err != nil {
		return err
	}
	// The editor, or the owner of its directory, may have put anything in its place.
	after, err := openfile.Read(ctx, path, maxManifests)
	if err != nil {
		return fmt.Errorf("the file was edited, and its difference can't be shown: %w", err)
	}
	if bytes.Equal(before, after) {
		t.note("nothing was changed")
		return nil
	}
	return t.printTextDiff(path, string(before), string(after))
}

// readWritable reads a regular file that the calling user may also write: otherwise the editor would open it read-only.
func readWritable(ctx context.Context, path string) ([]byte, error) {
	file, err := openfile.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	writable, err := openfile.Reopen(int(file.Fd()), path, os.O_RDWR) //nolint:gosec // A descriptor is small.
	if err != nil {
		return nil, err
	}
	if err := writable.Close(); err != nil {
		return nil, err
	}
	return openfile.ReadAll(ctx, file, maxManifests)
}

// runEditor runs $EDITOR, whose value may have arguments, and waits for its end. Ctrl-C is the editor's.
func (t *tool) runEditor(path string) error {
	words := strings.Fields(t.Getenv("EDITOR"))
	if len(words) == 0 {
		words = []string{defaultEditor}
	}
	cmd := exec.Command(words[0], append(words[1:], path)...) //nolint:gosec // It is the user's own editor.
	cmd.Stdin, cmd.Stdout, cmd.Stderr = t.Stdin, t.Stdout, t.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("the editor %s (EDITOR) failed, and nothing was applied: %w", words[0], err)
	}
	return nil
}
