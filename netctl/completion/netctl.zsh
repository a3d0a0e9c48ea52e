#compdef netctl
# zsh completion of netctl
_netctl() {
	local -a candidates
	local value description
	while IFS=$'\t' read -r value description; do
		candidates+=("${value//:/\\:}${description:+:$description}")
	done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
	if [[ $candidates[1] == '\:files' ]]; then
		compset -P '*='
		_files
	elif (( ${#candidates} )); then
		_describe netctl candidates
	else
		return 1
	fi
}
if [ "$funcstack[1]" = "_netctl" ]; then
	_netctl "$@"
else
	compdef _netctl netctl
fi
