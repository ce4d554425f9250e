package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/volume/ownership"
)

// mountHugePages mounts a file system of huge pages of that size in bytes at dir, if nothing is mounted there.
func mountHugePages(ctx context.Context, mounter mount.Interface, dir string, access access, size int64) error {
	options := []string{octal(access.mode), "pagesize=" + strconv.FormatInt(size, 10)}
	err := mountOnce(mounter, dir, func() error {
		if err := mounter.MountSensitiveWithoutSystemd("nodev", dir, "hugetlbfs", options, nil); err != nil {
			return fmt.Errorf("mount huge pages: %w", err)
		}
		return nil
	})
	if err != nil || access.group == nil {
		return err
	}
	// Such a file system takes no setgid bit as an option. The call before may have been killed before this.
	return ownership.Set(ctx, ownership.Request{Dir: dir, Group: *access.group, Policy: v1.FSGroupChangeOnRootMismatch})
}

// pageSize is the size in bytes of an emptyDir's huge pages: the one that the medium names, which the pod has to ask for, or else the
// only one that the pod asks for.
func pageSize(pod *v1.Pod, medium v1.StorageMedium) (int64, error) {
	asked, err := pageSizes(pod)
	if err != nil {
		return 0, err
	}
	if medium == v1.StorageMediumHugePages {
		switch len(asked) {
		case 0:
			return 0, errors.New("emptyDir.medium HugePages needs a container that requests huge pages")
		case 1:
			return asked[0], nil
		default:
			return 0, errors.New("emptyDir.medium HugePages doesn't say which of the requested huge pages: HugePages-<size> does")
		}
	}
	text, ok := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
	if !ok {
		return 0, fmt.Errorf("emptyDir.medium %q isn't known", medium)
	}
	size, err := parsePageSize(text)
	if err != nil {
		return 0, fmt.Errorf("emptyDir.medium %s: %w", medium, err)
	}
	if !slices.Contains(asked, size) {
		return 0, fmt.Errorf("emptyDir.medium %s needs a container that requests such huge pages", medium)
	}
	return size, nil
}

// pageSizes are the sizes of huge pages that the pod or its containers request, each once.
func pageSizes(pod *v1.Pod) ([]int64, error) {
	var lists []v1.ResourceList
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	eachContainer(pod, func(c *v1.Container) { lists = append(lists, c.Resources.Requests) })
	var sizes []int64
	for _, requests := range lists {
		for name := range requests {
			text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			if !ok {
				continue
			}
			size, err := parsePageSize(text)
			if err != nil {
				return nil, fmt.Errorf("resource %s: %w", name, err)
			}
			if !slices.Contains(sizes, size) {
				sizes = append(sizes, size)
			}
		}
	}
	return sizes, nil
}

func parsePageSize(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("page size %q: %w", text, err)
	}
	if q.Value() <= 0 {
		return 0, fmt.Errorf("page size %q has to be more than nothing", text)
	}
	return q.Value(), nil
}
