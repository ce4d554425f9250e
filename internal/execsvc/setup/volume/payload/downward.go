package payload

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/podstream/podstream/internal/execsvc/pod/downward"
)

// DownwardAPI returns the files of a downwardAPI volume. The error names all items that fail.
func DownwardAPI(src *v1.DownwardAPIVolumeSource, pod *v1.Pod, facts downward.Facts) (map[string]File, error) {
	s := newSet(src.DefaultMode)
	if err := s.addDownward(src.Items, pod, facts); err != nil {
		return nil, err
	}
	return s.files, nil
}

func (s set) addDownward(items []v1.DownwardAPIVolumeFile, pod *v1.Pod, facts downward.Facts) error {
	var errs []error
	for i := range items {
		value, err := fieldOf(&items[i], pod, facts)
		if err == nil {
			err = s.add(items[i].Path, []byte(value), items[i].Mode)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return utilerrors.NewAggregate(errs)
}

func fieldOf(item *v1.DownwardAPIVolumeFile, pod *v1.Pod, facts downward.Facts) (string, error) {
	switch {
	case item.FieldRef != nil:
		// Other fields (status.podIP) may be unknown when volumes are set up.
		if !strings.HasPrefix(item.FieldRef.FieldPath, "metadata.") {
			return "", fmt.Errorf("unsupported fieldPath: %s", item.FieldRef.FieldPath)
		}
		return downward.Field(pod, item.FieldRef.FieldPath, facts)
	case item.ResourceFieldRef != nil:
		return downward.Resource(pod, item.ResourceFieldRef.ContainerName, item.ResourceFieldRef, facts)
	default:
		return "", fmt.Errorf("path %q: neither fieldRef nor resourceFieldRef is set", item.Path)
	}
}
