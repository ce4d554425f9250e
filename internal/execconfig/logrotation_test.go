package execconfig

import (
	"testing"
	"time"
)

func TestLogRotation(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"by the file": {
			text: "containerLogMaxSize: 1Mi\ncontainerLogMaxFiles: 2\ncontainerLogMaxWorkers: 3\ncontainerLogMonitorInterval: 3s\n",
			want: func(s *Settings) {
				s.LogRotation = LogRotation{MaxSize: "1Mi", MaxBytes: 1 << 20, MaxFiles: 2, Workers: 3, Interval: 3 * time.Second}
			},
		},
		"by flags": {
			text: "containerLogMaxSize: 1Mi\ncontainerLogMaxFiles: 2\n",
			args: []string{"--container-log-max-size=4k", "--container-log-max-files=9"},
			want: func(s *Settings) {
				s.LogRotation.MaxSize, s.LogRotation.MaxBytes, s.LogRotation.MaxFiles = "4k", 4000, 9
			},
		},
		"off": {
			text: "containerLogMaxSize: \"-1\"\n",
			want: func(s *Settings) { s.LogRotation.MaxSize, s.LogRotation.MaxBytes = "-1", -1 },
		},
	})
}

func TestLogRotationRefuses(t *testing.T) {
	testRefused(t, []refused{
		{text: "containerLogMaxSize: much\n", want: `/etc/kubelet.yaml:3: containerLogMaxSize: it is "much"; want a number of bytes`},
		{args: []string{"--container-log-max-size=0.5"}, want: `--container-log-max-size: it is "0.5"`},
		{text: "containerLogMaxFiles: 1\n", want: "containerLogMaxFiles: it is 1, and must be greater than 1"},
		{args: []string{"--container-log-max-files=1"}, want: "--container-log-max-files: it is 1"},
		{text: "containerLogMaxWorkers: 0\n", want: "containerLogMaxWorkers: it is 0, and must be greater than or equal to 1"},
		{text: "containerLogMonitorInterval: 2.9s\n", want: "containerLogMonitorInterval: it is 2.9s, and must be a positive time duration greater than or equal to 3s"},
		{text: "containerLogMonitorInterval: 0s\n", want: "containerLogMonitorInterval: it is 0s"},
	})
}
