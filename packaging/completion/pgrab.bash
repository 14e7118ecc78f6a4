# Completion of pgrab for bash.  The program says what may come next: it asks the database that PGRAB_DSN, PGHOST and
# the like name, and offers nothing when that cannot be reached.
# shellcheck shell=bash

_pgrab() {
	local cur=${COMP_WORDS[COMP_CWORD]} words=("${COMP_WORDS[@]}") cword=$COMP_CWORD i
	# bash splits --node=web-1 and etl:load into several words.
	! declare -F _get_comp_words_by_ref >/dev/null || _get_comp_words_by_ref -n =: cur words cword
	for i in "${!words[@]}"; do
		words[i]=${words[i]//\\/}
	done
	mapfile -t COMPREPLY < <("${words[0]}" __complete "${words[@]:1:cword}" 2>/dev/null)
	if [ "${COMPREPLY[0]-}" = / ]; then
		mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		compopt -o filenames
		return
	fi
	# bash must not replace what is before the last = or :.
	local before=${cur%"${cur##*[=:]}"}
	for i in "${!COMPREPLY[@]}"; do
		COMPREPLY[i]=$(printf %q "${COMPREPLY[i]#"$before"}")
	done
}
complete -F _pgrab pgrab
