package launcher

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/version"

	"github.com/podstream/podstream/internal/daemon/process"
	"github.com/podstream/podstream/internal/kubeletconfig"
)

const versionFlag = "version"

// versionValue is the value of --version, as the kubelet has it: a boolean, raw, or the version to report.
type versionValue string

func (v *versionValue) String() string { return string(*v) }
func (v *versionValue) Type() string   { return "version" }

func (v *versionValue) Set(text string) error {
	switch {
	case text == "raw":
	case strings.HasPrefix(text, "v"):
		if text != kubeletconfig.Version {
			return fmt.Errorf("the version is %s, and can't be changed", kubeletconfig.Version)
		}
		text = ""
	default:
		asked, err := strconv.ParseBool(text)
		if err != nil {
			return err
		}
		text = strconv.FormatBool(asked)
	}
	*v = versionValue(text)
	return nil
}

// text returns what --version prints; "" if it wasn't asked for.
func (v *versionValue) text() string {
	switch *v {
	case "true":
		return "Kubernetes " + kubeletconfig.Version + "\n"
	case "raw":
		major, minor, _ := strings.Cut(kubeletconfig.Minor, ".")
		return fmt.Sprintf("%#v\n", version.Info{
			Major: major, Minor: minor, GitVersion: kubeletconfig.Version, GitCommit: process.Version(),
			GoVersion: runtime.Version(), Compiler: runtime.Compiler, Platform: process.Platform,
		})
	default:
		return ""
	}
}
