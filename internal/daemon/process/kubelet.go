package process

// KubernetesRelease is the release of Kubernetes whose kubelet the daemons replace.
const KubernetesRelease = "1.37"

// KubeletVersion is the kubelet's version in the Node's status, and what the kubelet's launcher prints for --version.
const KubeletVersion = "v" + KubernetesRelease + ".2-podstream"
