package volume

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/mount-utils"

	"github.com/podstream/podstream/internal/execsvc/pod/criconfig"
	"github.com/podstream/podstream/internal/execsvc/pod/podmeta"
	"github.com/podstream/podstream/internal/execsvc/setup/volume/ownership"
)

// mountHugePages mounts a hugetlbfs with pages of that size in bytes at dir, unless something is mounted there.
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
	// hugetlbfs has no option for the setgid bit. A restart after the mount may have prevented this call before.
	return ownership.Set(ctx, ownership.Request{Dir: dir, Group: *access.group, Policy: v1.FSGroupChangeOnRootMismatch})
}

// pageSize returns the page size in bytes of an emptyDir: the size in the medium, which the pod must request, or else
// the only size that the pod requests.
func pageSize(pod *v1.Pod, medium v1.StorageMedium) (int64, error) {
	requested, err := pageSizes(pod)
	if err != nil {
		return 0, err
	}
	if medium == v1.StorageMediumHugePages {
		switch len(requested) {
		case 0:
			return 0, errors.New("emptyDir.medium HugePages needs a container that requests huge pages")
		case 1:
			return requested[0], nil
		default:
			return 0, errors.New("emptyDir.medium HugePages is ambiguous, as several sizes are requested: use HugePages-<size>")
		}
	}
	text, ok := strings.CutPrefix(string(medium), string(v1.StorageMediumHugePagesPrefix))
	if !ok {
		return 0, fmt.Errorf("emptyDir.medium %q is unknown", medium)
	}
	size, err := criconfig.PageSize(text)
	if err != nil {
		return 0, fmt.Errorf("emptyDir.medium %s: %w", medium, err)
	}
	if !slices.Contains(requested, size) {
		return 0, fmt.Errorf("emptyDir.medium %s needs a container that requests such huge pages", medium)
	}
	return size, nil
}

// pageSizes returns the sizes of huge pages that the pod or its containers request, each once.
func pageSizes(pod *v1.Pod) ([]int64, error) {
	var lists []v1.ResourceList
	if pod.Spec.Resources != nil {
		lists = append(lists, pod.Spec.Resources.Requests)
	}
	for _, c := range podmeta.Containers(pod) {
		lists = append(lists, c.Resources.Requests)
	}
	var sizes []int64
	for _, requests := range lists {
		for name := range requests {
			text, ok := strings.CutPrefix(string(name), v1.ResourceHugePagesPrefix)
			if !ok {
				continue
			}
			size, err := criconfig.PageSize(text)
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
