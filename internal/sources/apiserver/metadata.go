package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/podstream/podstream/client/position"
)

const (
	// metadataPage is how many pods a page has, and maxPage the largest size of any page in bytes. Of larger ones, smaller pages
	// are requested: a pod's annotations may have 256 KiB.
	metadataPage, maxPage = 500, 16 << 20
	// maxListed is how many pods a list may have, and maxMetadataPages how many pages.
	maxListed, maxMetadataPages = 1 << 20, 1 << 16
	// metadataAccept requests only the metadata of the items of a list.
	metadataAccept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1," +
		"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	// metadataWatchAccept does so for a watch.
	metadataWatchAccept = "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1," +
		"application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	// objectAccept requests whole objects.
	objectAccept = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
)

// Errors of lists of metadata.
var (
	errLargePage = fmt.Errorf("a page of a list has more than %d bytes", maxPage)
	errLargeList = errors.New("a list has too many objects, or pages")
	errNoList    = errors.New("the answer isn't a list of metadata at one version")
)

// listMetadata adds the selected pods, as they are now, to the confirmation. node is where they are; empty: on any node.
func (s *Source) listMetadata(ctx context.Context, selector fields.Selector, node string, into *confirmation) error {
	options := metav1.ListOptions{FieldSelector: selector.String(), Limit: metadataPage}
	version := ""
	for range maxMetadataPages {
		list, err := s.server.metadata(ctx, &options)
		if errors.Is(err, errLargePage) && options.Limit > 1 {
			options.Limit = max(1, options.Limit/4)
			continue
		}
		switch {
		case err != nil:
			return err
		case version == "" && position.WellFormed(list.ResourceVersion):
			version = list.ResourceVersion
		case version == "" || version != list.ResourceVersion:
			return errNoList
		case len(into.listed)+len(list.Items) > maxListed:
			return errLargeList
		}
		for i := range list.Items {
			item := &list.Items[i]
			into.listed[item.Namespace+"/"+item.Name] = listedPod{uid: item.UID, version: item.ResourceVersion, at: version}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			into.versions[node] = version
			return nil
		}
	}
	return errLargeList
}

// metadata requests one page.
func (s *server) metadata(ctx context.Context, options *metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	object, err := readPage(ctx, s.get("pods", "", options), metadataAccept)
	if err != nil {
		return nil, err
	}
	list, ok := object.(*metav1.PartialObjectMetadataList)
	if !ok {
		return nil, errNoList
	}
	return list, nil
}

// readPage makes a request for a list, or a page of one, of bounded size.
func readPage(ctx context.Context, request *rest.Request, accept string) (runtime.Object, error) {
	body, err := request.SetHeader("Accept", accept).Stream(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }()
	data, err := io.ReadAll(io.LimitReader(body, maxPage+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxPage:
		return nil, errLargePage
	}
	object, _, err := codecs.UniversalDeserializer().Decode(data, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoList, err)
	}
	if !meta.IsListType(object) {
		return nil, errNoList
	}
	return object, nil
}
