package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// Exit codes that aren't the caller's own.
const (
	exitOK = 0
	// exitFailed is the code of a valid command that failed.
	exitFailed = 1
	exitUsage  = 2
	// exitTerminated is the code that a shell reports for a program that SIGTERM ended: 128 + 15.
	exitTerminated = 143
)

const usage = `usage: sample COMMAND [ARGUMENT...]

  seq COMMAND... ; COMMAND...    run one after the other, until one fails or gets a signal (the ; is a separate argument)

  sleep [DURATION]               end with 0 after DURATION (default: never)
  exit CODE [DURATION]           end with CODE, at once or after DURATION
  print TEXT...                  print TEXT on a line and run on
  count RATE                     print RATE numbered lines of 100 bytes a second, or as many as it can if RATE is 0; on SIGTERM
                                 print "last NUMBER" with the number of the last one, and end with 0
  env                            print the environment, sorted, and run on
  inspect [PATH...]              print what test/inside reads of the process and its container, and the files PATH with all
                                 files beneath them, as a line of JSON; run on
  ignore-term                    run on, also after SIGTERM
  on-term PATH TEXT [DURATION [CODE]]
                                 run on; on SIGTERM append TEXT to the file PATH, then end with CODE (143) after DURATION (0)
  hog MIB                        allocate MIB MiB of memory, print "holding MIB MiB", and run on
  pause                          reap orphaned processes and run on

  write PATH TEXT                write TEXT to the file PATH
  append PATH TEXT               add a line TEXT to the file PATH
  cat PATH                       print the file PATH
  exists PATH                    end with 0 if the file PATH exists, else with 1
  remove PATH                    remove the file PATH
  fail-once PATH CODE            if the file PATH doesn't exist, create it and end with CODE; else end with 0
  message PATH TEXT CODE         write TEXT to the file PATH and end with CODE
  link TARGET PATH               create the symbolic link PATH to TARGET
  follow DIR                     print the files in DIR/..data, NAME="CONTENT" in one line, and again after each change

  diary PATH COMMAND...          run COMMAND and append a line for each event of it to the file PATH:
                                 "NANOSECONDS RUN start", "… term" at each SIGTERM, and "… end CODE"; RUN identifies this run

  dig DIR NAME LEVELS MIB        create LEVELS nested directories NAME below DIR, and a file of MIB MiB in the innermost
  crowd DIR FILES                create FILES empty files in DIR
  grow PATH MIB                  append MIB MiB to the file PATH

  serve [ADDRESS] [--start=PATH] [--live=PATH] [--ready=PATH]
                                 print arguments, host name and process id; answer HTTP on ADDRESS; run on. Answers:
                                   /start /live /ready   200 while the file PATH exists, else 503; 200 without a PATH
                                   /headers              the request's headers, sorted
                                   /redirect?to=URL      302 to the URL
                                   /drip?pieces=N        N lines "hello", one each 100 ms
                                   any other path        "hello"
  grpc-health ADDRESS PATH [SERVICE]
                                 answer gRPC health checks of SERVICE (default: "") on ADDRESS: SERVING while the
                                 file PATH exists; run on

  stdin                          copy the standard input to the output until it ends
  tty [COLUMNSxROWS]             print "terminal COLUMNSxROWS" or "no terminal"; with COLUMNSxROWS print each new size of the
                                 terminal too, until it is COLUMNSxROWS

Commands that run on end with 143 on SIGTERM or SIGINT; pause ends with 0.
`

func main() {
	// Before anything else, so that an early SIGTERM isn't lost.
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	p := &program{signals: signals, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

// program is one run: its streams, and the signals that end it.
type program struct {
	signals        <-chan os.Signal
	stdin          io.Reader
	stdout, stderr io.Writer
	// signalled is set once a signal has ended a command. The remaining commands of a sequence are then not run.
	signalled bool
}

// command is a subcommand. It returns the exit code.
type command struct {
	minArgs, maxArgs int // a negative maxArgs allows any number
	run              func(p *program, ctx context.Context, args []string) int
}

func commands() map[string]command {
	return map[string]command{
		"seq": {1, -1, (*program).seq},

		"sleep":       {0, 1, (*program).sleep},
		"exit":        {1, 2, (*program).exit},
		"print":       {1, -1, (*program).print},
		"count":       {1, 1, (*program).count},
		"env":         {0, 0, (*program).env},
		"inspect":     {0, -1, (*program).inspect},
		"ignore-term": {0, 0, (*program).ignoreTerm},
		"on-term":     {2, 4, (*program).onTerm},
		"hog":         {1, 1, (*program).hog},
		"pause":       {0, 0, (*program).pause},

		"write":     {2, 2, (*program).write},
		"append":    {2, 2, (*program).append},
		"cat":       {1, 1, (*program).cat},
		"exists":    {1, 1, (*program).exists},
		"remove":    {1, 1, (*program).remove},
		"fail-once": {2, 2, (*program).failOnce},
		"message":   {3, 3, (*program).message},
		"link":      {2, 2, (*program).link},
		"follow":    {1, 1, (*program).follow},
		"diary":     {2, -1, (*program).diary},

		"dig":   {4, 4, (*program).dig},
		"crowd": {2, 2, (*program).crowd},
		"grow":  {2, 2, (*program).grow},

		"serve":       {0, 4, (*program).serve},
		"grpc-health": {2, 3, (*program).grpcHealth},

		"stdin": {0, 0, (*program).copyStdin},
		"tty":   {0, 1, (*program).tty},
	}
}

// run runs one command line and returns the exit code. It ends early if ctx ends.
func (p *program) run(ctx context.Context, args []string) int {
	if len(args) == 0 {
		return p.misused("no command")
	}
	name, args := args[0], args[1:]
	cmd, ok := commands()[name]
	switch {
	case !ok:
		return p.misused(fmt.Sprintf("unknown command %q", name))
	case len(args) < cmd.minArgs:
		return p.misused(name + ": too few arguments")
	case cmd.maxArgs >= 0 && len(args) > cmd.maxArgs:
		return p.misused(name + ": too many arguments")
	}
	return cmd.run(p, ctx, args)
}

// seq runs commands that are separated by ";". It stops after the first one that fails or that a signal ended.
func (p *program) seq(ctx context.Context, args []string) int {
	for {
		end := slices.Index(args, ";")
		if end < 0 {
			return p.run(ctx, args)
		}
		if code := p.run(ctx, args[:end]); code != exitOK || p.signalled || ctx.Err() != nil {
			return code
		}
		args = args[end+1:]
	}
}

func (p *program) misused(why string) int {
	fmt.Fprintf(p.stderr, "sample: %s\n%s", why, usage)
	return exitUsage
}

func (p *program) failed(err error) int {
	fmt.Fprintf(p.stderr, "sample: %v\n", err)
	return exitFailed
}
