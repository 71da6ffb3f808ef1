# Sourced by the other scripts: makes a virtual environment with this checkout installed in it.

# interpreter: prints the first Python that is new enough; of a virtual environment, which may be the
# one that is made anew, the Python that it was made with.
interpreter() {
  local python
  for python in ${PYTHON:-} python3 python3.13 python3.12 python3.11; do
    if command -v "$python" >/dev/null \
      && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      "$python" -c 'import os, sys; print(os.path.realpath(sys._base_executable))'
      return
    fi
  done
  echo "Whet needs Python 3.11 or newer; found none as python3 (or set PYTHON=/path/to/it)" >&2
  return 1
}

# ticking COMMAND...: runs it, and says every two seconds for how long; in place on a terminal.
ticking() {
  local start=$SECONDS form='   %d s\n' clock code=0
  if [[ -t 1 ]]; then form='\r   %d s '; fi
  # It ends with this shell, which Ctrl-C may end; a background process does not hear that itself.
  (while sleep 2 && kill -0 $$ 2>/dev/null; do printf "$form" $((SECONDS - start)); done) &
  clock=$!
  "$@" || code=$?
  kill "$clock" 2>/dev/null || true
  wait "$clock" 2>/dev/null || true
  if [[ -t 1 ]]; then printf '\r'; fi
  return "$code"
}

# watched COMMAND...: runs it, and says every two seconds the last line of its output; in place on a
# terminal. What it writes to standard error is shown at once; if it fails, its last lines are, too.
watched() {
  local start=$SECONDS form='   %3d s  %s\n' clock code=0 output
  output=$(mktemp)
  if [[ -t 1 ]]; then form='\r\033[K   %3d s  %s'; fi
  (while sleep 2 && kill -0 $$ 2>/dev/null; do
    printf "$form" $((SECONDS - start)) "$(tail -n 1 "$output" | tr -d '\r' | cut -c -90)"
  done) &
  clock=$!
  "$@" >"$output" || code=$?
  kill "$clock" 2>/dev/null || true
  wait "$clock" 2>/dev/null || true
  if [[ -t 1 ]]; then printf '\r\033[K'; fi
  if ((code)); then tail -n 5 "$output" >&2; fi
  rm -f "$output"
  return "$code"
}

# environment FOLDER [EXTRA [COMMAND]]: makes FOLDER, or does nothing when it fits this checkout already.
# COMMAND is called before the packages are installed, when FOLDER has a Python and its pip.
environment() {
  local folder=$1 extra=${2:-} command=${3:-:} python stamp
  python=$(interpreter)
  # What an environment depends on: where it stands, which Python, and what is installed.
  stamp=$(printf '%s\n' "$PWD" "$python" && "$python" --version && cat pyproject.toml)
  if [[ -f $folder/stamp && $(<"$folder/stamp") == "$stamp" ]]; then
    return
  fi
  echo "   installing into $folder (a few minutes the first time)"
  rm -rf "$folder"
  if ! ticking "$python" -m venv "$folder"; then
    echo "$python -m venv failed; on Debian and Ubuntu: apt install python3-venv" >&2
    return 1
  fi
  ticking "$folder/bin/python" -m pip install -qq --disable-pip-version-check --upgrade pip
  "$command"
  ticking "$folder/bin/python" -m pip install -qq --disable-pip-version-check \
    --editable ".${extra:+[$extra]}"
  printf '%s\n' "$stamp" >"$folder/stamp"
}
