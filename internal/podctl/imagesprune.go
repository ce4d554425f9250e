package podctl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

// pruneOptions are the flags of prune.
type pruneOptions struct{ all, yes, dryRun bool }

func (t *tool) pruneCommand() *cobra.Command {
	var o pruneOptions
	cmd := &cobra.Command{
		Use:   "prune",
		Short: "Remove images that nothing on this node uses",
		Long: `Prune removes the images without a tag that nothing uses, and with --all those with tags too. It keeps the images of all
containers, running or not, those that a pod needs, those that are being pulled, and the runtime's pinned ones. While
podexecd doesn't know all pods of the node, it removes nothing.

It first prints what it would remove. On a terminal it then asks; elsewhere it needs --yes.`,
		Example: `  podctl images prune
  podctl images prune --all --yes`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runPrune(cmd.Context(), o) },
	}
	cmd.Flags().BoolVarP(&o.all, "all", "a", false, "also remove unused images that have a tag")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "remove without asking")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "only print what would be removed")
	return cmd
}

// errNoAnswer is the error without a terminal and without --yes.
var errNoAnswer = errors.New("nothing was removed: standard input is no terminal, so give --yes to remove these images")

// runPrune asks for what would be removed, and then removes that and nothing else.
func (t *tool) runPrune(ctx context.Context, o pruneOptions) error {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return err
	}
	defer conn.Close()
	client := podexecv1.NewPodExecServiceClient(conn)
	asking, cancel := t.listContext(ctx)
	defer cancel()
	would, err := client.PruneImages(asking, &podexecv1.PruneImagesRequest{DryRun: true, All: o.all})
	if err != nil {
		return conn.explain(err)
	}
	found := would.GetImages()
	if err := t.printPrune(would, o); err != nil {
		return err
	}
	if len(found) == 0 || o.dryRun {
		return pruneFailures(would)
	}
	if ok, err := t.confirmed(ctx, o, found); err != nil || !ok {
		return err
	}
	req := &podexecv1.PruneImagesRequest{All: o.all}
	for _, i := range found {
		req.Ids = append(req.Ids, i.GetId())
	}
	// Without a time limit: the runtime removes one image after the other.
	did, err := client.PruneImages(ctx, req)
	if err != nil {
		return conn.explain(err)
	}
	if !t.output.IsTable() {
		if err := t.documents("").Print(render.Proto{Message: did}); err != nil {
			return err
		}
		return pruneFailures(did)
	}
	t.note("removed %d of %d images, %s", len(did.GetImages()), len(found), podsummary.Size(sumOf(did.GetImages())))
	return pruneFailures(did)
}

// printPrune prints what would be removed. As a document it is printed only if nothing is removed: there is one document.
func (t *tool) printPrune(would *podexecv1.PruneImagesResponse, o pruneOptions) error {
	found := would.GetImages()
	switch {
	case !t.output.IsTable() && (o.dryRun || len(found) == 0):
		return t.documents("").Print(render.Proto{Message: would})
	case !t.output.IsTable():
		return nil
	case len(found) == 0 && !o.all:
		t.note("no unused images without a tag; --all includes those with a tag")
		return nil
	case len(found) == 0:
		t.note("no unused images")
		return nil
	}
	table := t.newTable("IMAGE", "TAG", "IMAGE ID", "SIZE")
	for _, i := range found {
		tags := i.GetTags()
		if len(tags) == 0 {
			tags = []string{""}
		}
		for _, tag := range tags {
			table.Row(imageCells(i, tag, t.output == render.WideFormat)...)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	t.note("%d unused images, %s", len(found), podsummary.Size(sumOf(found)))
	if would.GetMore() {
		t.note("there are more: run it again after this")
	}
	return nil
}

// confirmed reports whether the user wants the images to be removed.
func (t *tool) confirmed(ctx context.Context, o pruneOptions, found []*podexecv1.Image) (bool, error) {
	if o.yes {
		return true, nil
	}
	if terminalOf(t.Stdin) == nil {
		return false, errNoAnswer
	}
	_, _ = fmt.Fprintf(t.Stderr, "Remove these %d images? [y/N] ", len(found))
	answer, err := t.readLine(ctx)
	if err != nil {
		return false, err
	}
	yes := slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer)))
	if !yes {
		t.note("nothing was removed")
	}
	return yes, nil
}

// maxAnswer is how many bytes of an answer are read.
const maxAnswer = 1 << 10

// readLine reads a line of standard input. The goroutine that reads may outlive the command.
func (t *tool) readLine(ctx context.Context) (string, error) {
	type answer struct {
		line string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(t.Stdin, maxAnswer)).ReadString('\n')
		if errors.Is(err, io.EOF) {
			err = nil
		}
		read <- answer{line, err}
	}()
	select {
	case a := <-read:
		return a.line, a.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// pruneFailures returns the error for images that weren't removed. Nil: there are none.
func pruneFailures(resp *podexecv1.PruneImagesResponse) error {
	var errs []error
	for _, f := range resp.GetFailures() {
		name := f.GetImage().GetId()
		if tags := f.GetImage().GetTags(); len(tags) > 0 {
			name = tags[0]
		}
		errs = append(errs, fmt.Errorf("image %s stays: %s", name, f.GetMessage()))
	}
	return errors.Join(errs...)
}

// sumOf returns the size of images. Layers that they share count in each, so that less may be freed.
func sumOf(images []*podexecv1.Image) uint64 {
	var sum uint64
	for _, i := range images {
		if sum += i.GetSizeBytes(); sum < i.GetSizeBytes() {
			return ^uint64(0)
		}
	}
	return sum
}
