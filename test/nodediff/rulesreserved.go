package nodediff

import (
	"regexp"
	"strconv"
)

// unlimitedPages is the number that the kubelet writes as no limit of huge pages.
const unlimitedPages = "4611686018427387904"

// reservedRules are the differences of cgroups on a machine with cpusets and huge pages.
var reservedRules = []Rule{
	{
		Name:    "allProcessors",
		Reason:  "The kubelet writes all processors of the machine, so that systemd keeps the controller. That limits nothing. podexecd writes none.",
		Section: cgroupsSection, Path: regexp.MustCompile(`^(kubepods|sysres|kuberes)\.slice/cpuset\.cpus$`),
		When: func(d *Difference) bool {
			n, err := strconv.Atoi(d.of.kubelet["node"]["capacity.cpu"])
			return err == nil && d.Kubelet == "0-"+strconv.Itoa(n-1) && d.Podstream == ""
		},
	},
	{
		Name:    "unlimitedHugePages",
		Reason:  "The kubelet writes a great number as no limit of huge pages of a QoS class. podexecd leaves the kernel's max.",
		Section: cgroupsSection, Path: regexp.MustCompile(`^kubepods\.slice/kubepods-(besteffort|burstable)\.slice/hugetlb\.[^.]+\.(rsvd\.)?max$`),
		When: func(d *Difference) bool { return d.Kubelet == unlimitedPages && d.Podstream == "max" },
	},
	{
		Name: "hugePagesOfCompressible",
		Reason: "The kubelet forbids huge pages in a reserved cgroup of which it limits only the compressible resources, because it sets all sizes that " +
			"aren't given to zero. podexecd leaves them as they are, which are no compressible resource.",
		Case: regexp.MustCompile(`^enforced-compressible$`), Section: cgroupsSection, Path: regexp.MustCompile(`^(sysres|kuberes)\.slice/hugetlb\.[^.]+\.(rsvd\.)?max$`),
		When: func(d *Difference) bool { return d.Kubelet == "0" && d.Podstream == "max" },
	},
	{
		Name: "hugePagesOfAllPods",
		Reason: "The kubelet limits all pods to the allocatable huge pages, and a moment later its manager of QoS classes removes that limit. " +
			"podexecd keeps it.",
		Section: cgroupsSection, Path: regexp.MustCompile(`^kubepods\.slice/hugetlb\.[^.]+\.(rsvd\.)?max$`),
		When: func(d *Difference) bool {
			return d.Kubelet == unlimitedPages && d.Podstream == "0" && value(d.of.podstream["node"], "allocatable.hugepages-2Mi") == "0"
		},
	},
}

var cgroupsSection = regexp.MustCompile(`^cgroups$`)
