package simruntime

import (
	"os"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// maxLogLine is the length in bytes at which containerd splits a line into partial lines.
const maxLogLine = 16 << 10

// containerLog writes a container's output in the CRI log format. The zero value discards the output.
type containerLog struct {
	path string
	file *os.File
}

// open opens the file at path for appending. An empty path discards the output. The directory must exist.
func (l *containerLog) open(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o640)
	if err != nil {
		return err
	}
	l.path, l.file = path, file
	return nil
}

// reopen opens a new file at the same path after a rotation. Until then, write appends to the rotated file.
func (l *containerLog) reopen() error {
	fresh := containerLog{}
	if err := fresh.open(l.path); err != nil {
		return err
	}
	l.close()
	*l = fresh
	return nil
}

// write appends the lines. The error goes neither to the container nor to a CRI client. The caller can log it.
func (l *containerLog) write(now time.Time, stream runtimeapi.LogStreamType, lines ...string) error {
	if l.file == nil || len(lines) == 0 {
		return nil
	}
	var out []byte
	for _, line := range lines {
		for len(line) > maxLogLine {
			out = appendLine(out, now, stream, runtimeapi.LogTagPartial, line[:maxLogLine])
			line = line[maxLogLine:]
		}
		out = appendLine(out, now, stream, runtimeapi.LogTagFull, line)
	}
	_, err := l.file.Write(out)
	return err
}

func appendLine(out []byte, now time.Time, stream runtimeapi.LogStreamType, tag runtimeapi.LogTag, text string) []byte {
	out = now.AppendFormat(out, time.RFC3339Nano)
	out = append(out, " "+string(stream)+" "+string(tag)+" "...)
	return append(append(out, text...), '\n')
}

func (l *containerLog) close() {
	if l.file != nil {
		_ = l.file.Close() // nothing is buffered
		l.file = nil
	}
}
