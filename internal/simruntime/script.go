package simruntime

import (
	"errors"
	"fmt"
	"slices"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// program is the only executable in simulated images, and their entrypoint.
const program = "/sample"

// Exit codes that don't come from the script.
const (
	exitFailed     = 1
	exitUsage      = 2
	exitKilled     = 137 // 128 + SIGKILL
	exitTerminated = 143 // 128 + SIGTERM
)

// process is the behaviour of a command line.
type process struct {
	// stdout and stderr are the lines that it prints when it starts.
	stdout, stderr []string
	// runsOn is set if it never ends by itself. Otherwise it ends after lifetime (zero: at once) with exitCode.
	runsOn   bool
	lifetime time.Duration
	exitCode int32
	// next returns the process that follows after the lifetime. It is called with the lock held. Nil means that no
	// process follows.
	next func() process
	// runWith runs the process with a stream, and returns its exit code. Without a stream, the process ends as if the
	// input were empty. Nil means that the process doesn't read.
	runWith func(session) int32
	// oomKilled is set if the kernel kills it at once for its memory use.
	oomKilled bool
	// ignoresTerm is set if SIGTERM doesn't end the process. Otherwise the process that onTerm returns follows. If
	// onTerm is nil, the process ends with termCode.
	ignoresTerm bool
	onTerm      func() process // called with the lock held
	termCode    int32
}

// environment is the environment of a process.
type environment struct {
	hostname string
	env      []string // NAME=value
	// memoryLimit is in bytes. Zero means no limit.
	memoryLimit int64
	files       *files
}

// argv returns the container's command line. The image's entrypoint is program. Without a command and arguments, it
// runs "serve".
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
	minArgs, maxArgs int // a negative maxArgs allows any number
	run              func(e environment, args []string) process
}

// scripts returns the subcommands of the sample program. They behave as in the program, as far as CRI shows it.
// fail-start exists only in the simulation, and simulates a missing program.
func scripts() map[string]script {
	return map[string]script{
		"seq": {1, -1, playSeq},

		"sleep":       {0, 1, playSleep},
		"exit":        {1, 2, playExit},
		"print":       {1, -1, playPrint},
		"env":         {0, 0, playEnv},
		"ignore-term": {0, 0, playIgnoreTerm},
		"on-term":     {2, 4, playOnTerm},
		"hog":         {1, 1, playHog},
		"pause":       {0, 0, playPause},

		"write":     {2, 2, playWrite},
		"append":    {2, 2, playAppend},
		"cat":       {1, 1, playCat},
		"exists":    {1, 1, playExists},
		"remove":    {1, 1, playRemove},
		"fail-once": {2, 2, playFailOnce},
		"message":   {3, 3, playMessage},
		"diary":     {2, -1, playDiary},

		"serve":       {0, 4, playServe},
		"grpc-health": {2, 3, playGRPCHealth},

		"stdin": {0, 0, playStdin},
		"tty":   {0, 1, playTTY},
	}
}

// play returns the process of the command line. It applies the immediate changes of files, so the caller must hold the
// lock. The error for a missing program is the low-level runtime's.
func play(argv []string, e environment) (process, error) {
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
	return playCommand(e, argv[1:]), nil
}

// playCommand runs a subcommand of program.
func playCommand(e environment, args []string) process {
	if len(args) == 0 {
		return misused("no command")
	}
	name, args := args[0], args[1:]
	s, ok := scripts()[name]
	switch {
	case !ok:
		return misused(fmt.Sprintf("unknown command %q", name))
	case len(args) < s.minArgs:
		return misused(name + ": too few arguments")
	case s.maxArgs >= 0 && len(args) > s.maxArgs:
		return misused(name + ": too many arguments")
	}
	return s.run(e, args)
}

// playSeq runs the commands up to the first one that fails, runs on, or takes time. After a command that takes time it
// continues with the rest.
func playSeq(e environment, args []string) process {
	end := slices.Index(args, ";")
	if end < 0 {
		return playCommand(e, args)
	}
	p := playCommand(e, args[:end])
	rest := func() process { return playSeq(e, args[end+1:]) }
	switch {
	case p.runsOn || p.exitCode != 0:
		return p
	case p.lifetime > 0:
		p.next = rest
		return p
	default:
		q := rest()
		q.stdout, q.stderr = slices.Concat(p.stdout, q.stdout), slices.Concat(p.stderr, q.stderr)
		return q
	}
}

func misused(why string) process {
	return process{stderr: []string{"sample: " + why}, exitCode: exitUsage}
}

func failed(err error) process {
	return process{stderr: []string{"sample: " + err.Error()}, exitCode: exitFailed}
}

// staying returns a process that prints the lines and runs until SIGTERM.
func staying(stdout ...string) process {
	return process{stdout: stdout, runsOn: true, termCode: exitTerminated}
}
