package volume

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// requests returns requests of this many bytes of each resource.
func requests(names ...v1.ResourceName) v1.ResourceRequirements {
	list := v1.ResourceList{}
	for _, name := range names {
		list[name] = resource.MustParse("1Gi")
	}
	return v1.ResourceRequirements{Requests: list}
}

func TestPageSize(t *testing.T) {
	type all = []v1.ResourceRequirements
	for name, c := range map[string]struct {
		medium     v1.StorageMedium
		containers all
		pod        *v1.ResourceRequirements
		want       int64
		mentions   string
	}{
		"the only one":          {medium: "HugePages", containers: all{requests("cpu"), requests("hugepages-2Mi")}, want: 2 << 20},
		"one in two containers": {medium: "HugePages", containers: all{requests("hugepages-2Mi"), requests("hugepages-2048Ki")}, want: 2 << 20},
		"the pod's":             {medium: "HugePages", pod: new(requests("hugepages-1Gi")), want: 1 << 30},
		"named":                 {medium: "HugePages-1Gi", containers: all{requests("hugepages-2Mi", "hugepages-1Gi")}, want: 1 << 30},
		"none":                  {medium: "HugePages", containers: all{requests("memory")}, mentions: "requests huge pages"},
		"two":                   {medium: "HugePages", containers: all{requests("hugepages-2Mi", "hugepages-1Gi")}, mentions: "ambiguous"},
		"not asked for":         {medium: "HugePages-1Gi", containers: all{requests("hugepages-2Mi")}, mentions: "HugePages-1Gi needs"},
		"no size":               {medium: "HugePages-", mentions: "size"},
		"no number":             {medium: "HugePages-many", mentions: "many"},
		"nothing":               {medium: "HugePages-0", mentions: "more than nothing"},
		"a bad name":            {medium: "HugePages", containers: all{requests("hugepages-x")}, mentions: "hugepages-x"},
		"an exponent":           {medium: "HugePages-1e-999999999", mentions: "page size"},
		"an exponent in a name": {medium: "HugePages", containers: all{requests("hugepages-1e-999999999")}, mentions: "page size"},
		"another kind":          {medium: "HugePages2Mi", mentions: "is unknown"},
	} {
		pod := &v1.Pod{Spec: v1.PodSpec{Resources: c.pod}}
		for _, r := range c.containers {
			pod.Spec.Containers = append(pod.Spec.Containers, v1.Container{Resources: r})
		}
		got, err := pageSize(pod, c.medium)
		if got != c.want || (err != nil) != (c.mentions != "") || err != nil && !strings.Contains(err.Error(), c.mentions) {
			t.Errorf("%s: %d, %v; want %d and an error that mentions %q", name, got, err, c.want, c.mentions)
		}
	}
}

func TestHugePages(t *testing.T) {
	m := realManager(t)
	pod := grouped(podWith("u1", emptyDirVolume("huge", v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi"})), 4321)
	pod.Spec.Containers[0].Resources = requests("hugepages-2Mi")
	for range 2 {
		setUp(t, m, pod)
	}
	dir := dirOf(t, m, pod, "huge")
	if fs := fileSystem(t, dir); fs.Type != unix.HUGETLBFS_MAGIC || fs.Bsize != 2<<20 {
		t.Errorf("file system %x of %d bytes a page, want huge pages of 2 MiB", fs.Type, fs.Bsize)
	}
	if st := status(t, dir); st.Mode&0o7777 != 0o2777 || st.Gid != 4321 {
		t.Errorf("mode %o and group %d, want 2777 and the fsGroup", st.Mode&0o7777, st.Gid)
	}
	// A second mount over the first would need a second unmount.
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	if fileSystem(t, dir).Type == unix.HUGETLBFS_MAGIC {
		t.Error("it was mounted twice")
	}
}
