package podctl

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podstream/podstream/internal/podctl/podsummary"
	"github.com/podstream/podstream/internal/podctl/render"
	podconfigv1 "github.com/podstream/podstream/proto/podconfig/v1"
	podexecv1 "github.com/podstream/podstream/proto/podexec/v1"
)

func (t *tool) imagesCommand() *cobra.Command {
	var selector labelSelector
	cmd := &cobra.Command{
		Use:   "images",
		Short: "Show, pull and remove the images on this node",
		Long: `Images shows the images of this node's container runtime, a line for each name, and the pods that use them.

"images pull" and "images prune" take the role of an operator.`,
		Example: `  podctl images
  podctl images -o wide
  podctl images -l app=web
  podctl images pull registry.example/app:1
  podctl images prune --all`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return t.runImages(cmd.Context(), selector) },
	}
	list := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "Show the images on this node", Long: cmd.Long, Args: noArguments, RunE: cmd.RunE,
	}
	t.addListFlags(cmd.Flags())
	t.addListFlags(list.Flags())
	for _, flags := range []*pflag.FlagSet{cmd.Flags(), list.Flags()} {
		flags.VarP(&selector, "selector", "l", "only the images of pods that match this label `selector`, by the labels that podconfigd has of them")
	}
	cmd.AddCommand(list, t.pullCommand(), t.pruneCommand())
	return cmd
}

// runImages prints the images. A selector leaves those that a matching pod uses.
func (t *tool) runImages(ctx context.Context, selector labelSelector) error {
	ctx, cancel := t.listContext(ctx)
	defer cancel()
	images, err := t.listImages(ctx)
	if err != nil {
		return err
	}
	if images, err = t.imagesOf(ctx, selector, images); err != nil {
		return err
	}
	if images, err = sorted(t, images, func(i *podexecv1.Image) any { return render.Proto{Message: i} }); err != nil {
		return err
	}
	if !t.output.IsTable() {
		var list []render.Proto
		for _, i := range images {
			list = append(list, render.Proto{Message: i})
		}
		return t.documents("").Print(struct {
			Images []render.Proto `json:"images"`
		}{render.OrEmpty(list)})
	}
	if len(images) == 0 {
		t.note("no images found")
		return nil
	}
	table := t.imageTable()
	for _, i := range images {
		table.row(i)
	}
	return table.Flush()
}

// imagesOf returns the images that a pod uses which matches the selector; all for the empty selector.
func (t *tool) imagesOf(ctx context.Context, selector labelSelector, images []*podexecv1.Image) ([]*podexecv1.Image, error) {
	labelled := t.newLabelled(selector)
	if labelled == nil {
		return images, nil
	}
	var users []*podconfigv1.PodRef
	for _, i := range images {
		users = append(users, i.GetUsedBy()...)
	}
	if err := labelled.judge(ctx, users); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(images, func(i *podexecv1.Image) bool { return !slices.ContainsFunc(i.GetUsedBy(), labelled.matches) }), nil
}

func (t *tool) listImages(ctx context.Context) ([]*podexecv1.Image, error) {
	conn, err := t.podexecd.connect(t.userAgent())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	client := podexecv1.NewPodExecServiceClient(conn)
	images, err := allPages(t.newListSize(), func(token string) ([]*podexecv1.Image, string, error) {
		resp, err := client.ListImages(ctx, &podexecv1.ListImagesRequest{PageToken: token})
		return resp.GetImages(), resp.GetNextPageToken(), err
	})
	if err != nil {
		return nil, conn.explain(err)
	}
	return images, nil
}

// imageTable is a table with a line for each name of an image.
type imageTable struct {
	*render.Table
	tool *tool
	wide bool
}

func (t *tool) imageTable() *imageTable {
	header := []string{"IMAGE", "TAG", "IMAGE ID", "SIZE", "USED BY", "LAST USED"}
	wide := t.output == render.WideFormat
	if wide {
		header = append(header, "PINNED", "DIGEST")
	}
	return &imageTable{t.newTable(header...), t, wide}
}

// row adds the lines of an image: one for each tag, or one without.
func (t *imageTable) row(i *podexecv1.Image) {
	tags := i.GetTags()
	if len(tags) == 0 {
		tags = []string{""}
	}
	for _, tag := range tags {
		cells := append(imageCells(i, tag, t.wide), users(i, t.wide), podsummary.Age(t.tool.Clock.Now(), i.GetLastUsedTime()))
		if t.wide {
			cells = append(cells, yesNo(i.GetPinned()), strings.Join(i.GetDigests(), ","))
		}
		t.Table.Row(cells...)
	}
}

// imageCells returns the name, tag, ID and size of an image. An empty tag means that it has none.
func imageCells(i *podexecv1.Image, tag string, wholeID bool) []string {
	const none = "<none>"
	name, tag := splitTag(tag)
	if name == "" {
		name, tag = none, none
		if digests := i.GetDigests(); len(digests) > 0 {
			name, _, _ = strings.Cut(digests[0], "@")
		}
	}
	return []string{name, tag, shortID(i.GetId(), wholeID), podsummary.Size(i.GetSizeBytes())}
}

// splitTag splits the tag from an image's name. A colon before a slash is a registry's port.
func splitTag(image string) (name, tag string) {
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		return image[:at], image[at+1:]
	}
	return image, ""
}

// shortID returns the beginning of an image's ID, as crictl prints it, or all of it.
func shortID(id string, whole bool) string {
	const enough = 13
	short := []rune(strings.TrimPrefix(id, "sha256:"))
	if whole || len(short) <= enough {
		return id
	}
	return string(short[:enough])
}

// users lists the first pods that use an image, or all.
func users(i *podexecv1.Image, all bool) string {
	const some = 3
	var names []string
	for n, ref := range i.GetUsedBy() {
		if n == some && !all {
			names = append(names, "…")
			break
		}
		names = append(names, podsummary.FullName(ref))
	}
	return strings.Join(names, ",")
}
