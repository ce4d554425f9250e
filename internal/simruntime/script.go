package simruntime

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// program is the one executable that every simulated image holds, and its entrypoint.
const program = "/sample"

// Exit codes that aren't the script's own.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitKilled     = 137 // 128 + SIGKILL
	exitTerminated = 143 // 128 + SIGTERM
)

// process is what a command line does.
type process struct {
	// stdout and stderr are the lines that it prints as it starts.
	stdout, stderr []string
	// runsOn is set if it never ends by itself; else it ends after lifetime (zero: at once) with exitCode.
	runsOn   bool
	lifetime time.Duration
	exitCode int32
	// oomKilled is set if the kernel ends it at once for the memory that it takes.
	oomKilled bool
	// ignoresTerm is set if SIGTERM doesn't end it; else it ends it with termCode.
	ignoresTerm bool
	termCode    int32
}

// world is what a process finds around it.
type world struct {
	hostname string
	env      []string // NAME=value
	// memoryLimit is in bytes. Zero: none.
	memoryLimit int64
	files       *files
}

// argv is the container's command line: the image's entrypoint is program, and a container that gives neither command nor
// arguments serves.
func argv(config *runtimeapi.ContainerConfig) []string {
	command := config.GetCommand()
	if len(command) == 0 {
		command = []string{program}
		if len(config.GetArgs()) == 0 {
			return append(command, "serve")
		}
	}
	return slices.Concat(command, config.GetArgs())
}

// script is one subcommand of program.
type script struct {
	minArgs, maxArgs int // maxArgs below zero: any number
	run              func(w world, args []string) process
}

// scripts are the subcommands of the sample program, and do what they do there as far as CRI shows it. One is the
// simulation's own: fail-start, as which no program exists.
var scripts = map[string]script{
	"sleep":       {0, 1, playSleep},
	"exit":        {1, 2, playExit},
	"print":       {1, -1, playPrint},
	"env":         {0, 0, playEnv},
	"serve":       {0, 1, playServe},
	"ignore-term": {0, 0, playIgnoreTerm},
	"write":       {2, 2, playWrite},
	"cat":         {1, 1, playCat},
	"hog":         {1, 1, playHog},
	"pause":       {0, 0, playPause},
}

// play tells what the command line does in the world; a "write" is done by then. The error is the low-level runtime's for a
// program that doesn't exist.
func play(argv []string, w world) (process, error) {
	if len(argv) == 0 {
		return process{}, errors.New("no command specified: unknown")
	}
	missing := argv[0]
	if argv[0] == program && len(argv) > 1 && argv[1] == "fail-start" {
		missing = argv[1]
	}
	if missing != program {
		return process{}, fmt.Errorf("exec: %q: executable file not found in $PATH: unknown", missing)
	}
	if len(argv) == 1 {
		return misused("no command"), nil
	}
	name, args := argv[1], argv[2:]
	s, ok := scripts[name]
	switch {
	case !ok:
		return misused(fmt.Sprintf("unknown command %q", name)), nil
	case len(args) < s.minArgs:
		return misused(name + ": too few arguments"), nil
	case s.maxArgs >= 0 && len(args) > s.maxArgs:
		return misused(name + ": too many arguments"), nil
	}
	return s.run(w, args), nil
}

func misused(why string) process {
	return process{stderr: []string{"sample: " + why}, exitCode: exitUsage}
}

func failed(err error) process {
	return process{stderr: []string{"sample: " + err.Error()}, exitCode: exitFailed}
}

// staying prints the lines and runs on until SIGTERM.
func staying(stdout ...string) process {
	return process{stdout: stdout, runsOn: true, termCode: exitTerminated}
}

func playSleep(_ world, args []string) process {
	if len(args) == 0 {
		return staying()
	}
	duration, err := parseDuration(args[0])
	if err != nil {
		return misused("sleep: " + err.Error())
	}
	return process{lifetime: duration, termCode: exitTerminated}
}

func playExit(_ world, args []string) process {
	code, err := strconv.ParseUint(args[0], 10, 8)
	if err != nil {
		return misused("exit: the code must be a number from 0 to 255")
	}
	p := process{exitCode: int32(code), termCode: exitTerminated}
	if len(args) == 2 {
		if p.lifetime, err = parseDuration(args[1]); err != nil {
			return misused("exit: " + err.Error())
		}
	}
	return p
}

func playPrint(_ world, args []string) process {
	return staying(strings.Split(strings.Join(args, " "), "\n")...)
}

func playEnv(w world, _ []string) process {
	return staying(slices.Sorted(slices.Values(w.env))...)
}

// playServe listens nowhere: there is no network behind a sandbox's address.
func playServe(w world, args []string) process {
	line := fmt.Sprintf("serving args=%q host=%s pid=1", args, w.hostname)
	if len(args) == 1 {
		line += " address=" + args[0]
	}
	return staying(line)
}

func playIgnoreTerm(world, []string) process {
	return process{runsOn: true, ignoresTerm: true}
}

func playWrite(w world, args []string) process {
	if err := w.files.write(args[0], args[1]); err != nil {
		return failed(err)
	}
	return process{}
}

func playCat(w world, args []string) process {
	content, err := w.files.read(args[0])
	if err != nil {
		return failed(err)
	}
	if len(content) == 0 {
		return process{}
	}
	return process{stdout: strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")}
}

func playHog(w world, args []string) process {
	mib, err := strconv.ParseUint(args[0], 10, 20)
	if err != nil {
		return misused("hog: MIB must be a whole number")
	}
	if w.memoryLimit > 0 && int64(mib)<<20 > w.memoryLimit {
		return process{oomKilled: true, exitCode: exitKilled}
	}
	return staying(fmt.Sprintf("holding %d MiB", mib))
}

func playPause(world, []string) process { return process{runsOn: true} }

// parseDuration also takes bare seconds, as the sleep of a shell does.
func parseDuration(text string) (time.Duration, error) {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, nil
	}
	duration, err := time.ParseDuration(text)
	if err != nil || duration < 0 {
		return 0, fmt.Errorf("%q is not a duration", text)
	}
	return duration, nil
}
