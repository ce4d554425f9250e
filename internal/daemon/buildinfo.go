package daemon

import (
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterBuildInfo registers kubernetes_build_info for a program of that version of Kubernetes: "v1.37.2-podstream".
func RegisterBuildInfo(r prometheus.Registerer, version string) {
	numbers := append(strings.Split(strings.TrimPrefix(version, "v"), "."), "", "")
	commit, date, state := "", "", "clean"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value
			case s.Key == "vcs.time":
				date = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				state = "dirty"
			}
		}
	}
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "kubernetes_build_info", Help: "The version of Kubernetes that the program stands for, and its build. Always 1.",
	}, []string{"major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler", "platform"})
	build.WithLabelValues(
		numbers[0], numbers[1], version, commit, state, date, runtime.Version(), runtime.Compiler, runtime.GOOS+"/"+runtime.GOARCH,
	).Set(1)
	r.MustRegister(build)
}
