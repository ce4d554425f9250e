package cridiff

import v1 "k8s.io/api/core/v1"

// lifeExamples are examples of lifeRules.
var lifeExamples = []example{
	{
		rule: "hookOutlastsGrace", step: "ExecSync app /bye", change: withHook("/bye"), podstream: Fields{errorPath: "context canceled"},
		also: Steps{"StopContainer app": {"timeout": "2"}},
		neighbours: map[string]func(*example){
			"another command": func(e *example) { e.change = withHook("/hi") },
			"another error":   func(e *example) { e.podstream = Fields{errorPath: "container not found"} },
			"the kubelet's":   func(e *example) { e.kubelet = Fields{errorPath: "deadline exceeded"} },
			"time is left":    func(e *example) { e.also = Steps{"StopContainer app": {"timeout": "3"}} },
		},
	},
	{
		rule: "volumesOfRefusedPod", step: filesStep, missing: Fields{"reason": "SysctlForbidden"},
		kubelet: Fields{"volumes/kubernetes.io~empty-dir/a": "drwxrwxrwx 0:0"},
		neighbours: map[string]func(*example){
			"a pod that runs":    func(e *example) { e.missing = Fields{} },
			"a pod that started": func(e *example) { e.missing = Fields{"reason": ""} },
		},
	},
	{
		rule: "hostsFileOfEndedPod", step: filesStep, missing: Fields{"reason": "", "ended.app.code": "128"}, kubelet: Fields{"etc-hosts": "x"},
		neighbours: map[string]func(*example){
			"a pod that runs": func(e *example) { e.missing = Fields{} },
			"volumes too":     func(e *example) { e.kubelet = Fields{"etc-hosts": "x", "volumes/a": "drwxrwxrwx 0:0"} },
			"another container runs": func(e *example) {
				e.change = func(p *v1.Pod) { p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "b"}) }
			},
		},
	},
	{
		rule: "neverPullsBeforeOther", step: orderStep, change: sameImage(v1.PullNever),
		kubelet:   list("", "CreateContainer b", "StartContainer b", "CreateContainer app", "StartContainer app", "StopPodSandbox"),
		podstream: list("", "CreateContainer app", "StartContainer app", "CreateContainer b", "StartContainer b", "StopPodSandbox"),
		neighbours: map[string]func(*example){
			"it pulls": func(e *example) { e.change = sameImage(v1.PullAlways) },
			"another image": func(e *example) {
				e.change = func(p *v1.Pod) { sameImage(v1.PullNever)(p); p.Spec.Containers[1].Image = "y" }
			},
			"started twice":  func(e *example) { e.podstream["[2]"] = "CreateContainer app" },
			"ended too soon": func(e *example) { e.podstream["[3]"], e.podstream["[4]"] = e.podstream["[4]"], e.podstream["[3]"] },
		},
	},
}

// sameImage gives the pod two containers with one image, the first one with the policy.
func sameImage(policy v1.PullPolicy) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Image, p.Spec.Containers[0].ImagePullPolicy = "x", policy
		p.Spec.Containers = append(p.Spec.Containers, v1.Container{Name: "b", Image: "x"})
	}
}

func withHook(command string) func(*v1.Pod) {
	return func(p *v1.Pod) { p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: runs(command)} }
}
